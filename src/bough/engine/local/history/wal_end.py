"""Reads where a volume's WAL ends: from its server, or from the files of a server that shut down cleanly."""

import asyncio
import struct

from bough.domain.lsn import is_lsn
from bough.engine.local.computes import backup_label, session
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.volumes.control_files import read_control_file
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import archiver

_TIMEOUT_SECONDS = 2.0  # an API request waits for the answer


class WalEndReader:
    def __init__(self, volumes: Volumes, running: RunningComputes) -> None:
        self._volumes = volumes
        self._running = running

    async def read_wal_end(self, volume: VolumeId) -> str | None:
        """Return an LSN; None if it is unknown."""
        sockets = await self._running.find_volume_sockets(volume)
        if sockets is None:
            return await asyncio.to_thread(_read_wal_end_from_files, self._volumes.folder(volume))
        try:
            async with (
                asyncio.timeout(_TIMEOUT_SECONDS),
                session.open_session(sockets, limits=session.INSPECTION_LIMITS) as connection,
            ):
                end = await connection.read_wal_end()
        except (EngineError, TimeoutError):
            return None
        return end if end is not None and is_lsn(end) else None

    async def is_archiving(self, volume: VolumeId) -> bool:
        """Return whether WAL that is written from now on is archived.

        A server started by a version without history does not archive until its next start.
        """
        sockets = await self._running.find_volume_sockets(volume)
        if sockets is None:
            return True
        try:
            async with (
                asyncio.timeout(_TIMEOUT_SECONDS),
                session.open_session(sockets, limits=session.INSPECTION_LIMITS) as connection,
            ):
                [row] = await connection.fetch(archiver.IS_ARCHIVING_ON)
                return bool(row["is_on"])
        except (EngineError, TimeoutError):
            return False


def _read_wal_end_from_files(folder: VolumeFolder) -> str | None:
    """A server that is not ready yet has already marked the control file as in use, so the answer is None."""
    try:
        record = folder.read_record()
        if record is None or record.is_pending:
            return None
        if backup_label.read_pending_label(folder.data) is not None:
            return record.origin_lsn
        control = read_control_file(folder.data)
    except (EngineError, OSError, struct.error):
        return None
    return control.end_lsn if control.is_shut_down else None

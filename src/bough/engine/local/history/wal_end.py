"""Where a volume's WAL ends now: asked of its server, or read off the files of one that ended well."""

import asyncio
import struct

from bough.domain.lsn import is_lsn
from bough.engine.local.computes import backup_label, session, wal_segments
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import archiver

_TIMEOUT_SECONDS = 2.0  # seconds, for a server that is busy: a request waits


class WalEndReader:
    def __init__(self, volumes: Volumes, running: RunningComputes) -> None:
        self._volumes = volumes
        self._running = running

    async def read_wal_end(self, volume: VolumeId) -> str | None:
        """As an LSN; None when nobody knows."""
        sockets = await self._running.find_volume_sockets(volume)
        if sockets is None:
            return await asyncio.to_thread(_read_wal_end_from_files, self._volumes.folder(volume))
        try:
            async with (
                asyncio.timeout(_TIMEOUT_SECONDS),
                session.open_session(sockets, limits=session.INSPECTION_LIMITS) as ours,
            ):
                told = await ours.read_wal_end()
        except (EngineError, TimeoutError):
            return None
        return told if told is not None and is_lsn(told) else None

    async def is_archiving(self, volume: VolumeId) -> bool:
        """Whether what is written from now on is archived. A server that was started by a version without history
        does not until its next start.
        """
        sockets = await self._running.find_volume_sockets(volume)
        if sockets is None:
            return True
        try:
            async with (
                asyncio.timeout(_TIMEOUT_SECONDS),
                session.open_session(sockets, limits=session.INSPECTION_LIMITS) as ours,
            ):
                [row] = await ours.fetch(archiver.IS_ARCHIVING_ON)
                return bool(row["is_on"])
        except (EngineError, TimeoutError):
            return False


def _read_wal_end_from_files(folder: VolumeFolder) -> str | None:
    """Whatever lives on the volume and is not ready makes its files say that they are in use."""
    try:
        record = folder.read_record()
        if record is None or record.pending:
            return None
        if backup_label.read_pending_label(folder.data) is not None:
            return record.lsn
        control = wal_segments.read_control_file(folder.data)
    except (EngineError, OSError, struct.error):
        return None
    return control.end_lsn if control.is_shut_down else None

"""Where a volume's WAL ends now: asked of its server, or read off the files of one that ended well."""

import asyncio
import struct

from bough.domain.lsn import is_lsn
from bough.engine.local.computes import labels, segments, session
from bough.engine.local.computes.living import Living
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import archiving

_PATIENCE = 2.0  # seconds, for a server that is busy: a request waits


class Ends:
    def __init__(self, volumes: Volumes, living: Living) -> None:
        self._volumes = volumes
        self._living = living

    async def of(self, volume: VolumeId) -> str | None:
        """As an LSN; None when nobody knows."""
        sockets = await self._living.sockets_of(volume)
        if sockets is None:
            return await asyncio.to_thread(_of_files, self._volumes.folder(volume))
        try:
            async with asyncio.timeout(_PATIENCE), session.opened(sockets, limits=session.LOOK) as ours:
                told = await ours.written_until()
        except (EngineError, TimeoutError):
            return None
        return told if told is not None and is_lsn(told) else None

    async def archives(self, volume: VolumeId) -> bool:
        """Whether what is written from now on is archived. A server that was started by a version without history
        does not until its next start.
        """
        sockets = await self._living.sockets_of(volume)
        if sockets is None:
            return True
        try:
            async with asyncio.timeout(_PATIENCE), session.opened(sockets, limits=session.LOOK) as ours:
                [row] = await ours.rows(archiving.IS_ON)
                return bool(row["is_on"])
        except (EngineError, TimeoutError):
            return False


def _of_files(folder: VolumeFolder) -> str | None:
    """Whatever lives on the volume and is not ready makes its files say that they are in use."""
    try:
        record = folder.read()
        if record is None or record.pending:
            return None
        if labels.waiting(folder.data) is not None:
            return record.lsn
        control = segments.control(folder.data)
    except (EngineError, OSError, struct.error):
        return None
    return control.end if control.shut_down else None

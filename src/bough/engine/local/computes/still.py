"""Computes in which nothing can be written: standbys that follow nobody.

One begins where a server ended well, so that all of its WAL is replayed when it accepts connections, and its files
stay as they are. What Postgres has to be told before is told by a private compute, because a standby cannot be. A
server that may write again reads the end of the WAL once more, on the same timeline, and goes on.
"""

import asyncio
import struct
from dataclasses import replace

from bough.engine.local.computes import labels, segments, standbys
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.living import Living
from bough.engine.local.computes.private import PrivateComputes
from bough.engine.local.installs.installs import Install
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.postgres import replication


class StillComputes:
    def __init__(self, computes: Computes, living: Living, private: PrivateComputes, volumes: Volumes) -> None:
        self._computes = computes
        self._living = living
        self._private = private
        self._volumes = volumes

    async def prepared(self, spec: ComputeSpec, install: Install) -> ComputeSpec:
        """Its volume is one that it can begin with; the spec with what it needs. The caller holds the volume's lock."""
        folder = self._volumes.folder(spec.volume_id)
        is_told = await self._computes.is_told(spec, install)
        stands = await asyncio.to_thread(standbys.is_marked, folder.data)
        if not (stands and is_told):
            await self._living.stop(spec.endpoint_id)
            if not is_told or not await asyncio.to_thread(_ended_well, folder):
                async with self._private.on(_branch(spec), install) as sockets:
                    await self._computes.tell(spec, install, sockets)
            await unbroken(lambda: labels.forget(folder.data))
        return replace(spec, settings=await asyncio.to_thread(_settings, spec, folder))


def _ended_well(folder: VolumeFolder) -> bool:
    """Whether the server that wrote last made its last checkpoint, and no recovery waits."""
    try:
        return labels.waiting(folder.data) is None and segments.control(folder.data).shut_down
    except (OSError, struct.error):
        return False


def _settings(spec: ComputeSpec, folder: VolumeFolder) -> dict[str, str]:
    """With less than the server had that wrote last it would not start."""
    try:
        return replication.raised(spec.settings, segments.control(folder.data).limits)
    except (OSError, struct.error) as error:
        raise EngineError("The branch's control file cannot be read.", transient=False) from error


def _branch(spec: ComputeSpec) -> BranchSpec:
    return BranchSpec(project_id=spec.project_id, volume_id=spec.volume_id, install=spec.install)

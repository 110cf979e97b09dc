"""Computes in which nothing can be written: standbys that follow nobody.

One begins where a server ended well, so that all of its WAL is replayed when it accepts connections, and its files
stay as they are. What Postgres has to be told before is told by a private compute, because a standby cannot be. A
server that may write again reads the end of the WAL once more, on the same timeline, and goes on.
"""

import asyncio
import struct
from dataclasses import replace

from bough.engine.local.computes import backup_label, standby_files, wal_segments
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.temporary_computes import TemporaryComputes
from bough.engine.local.installs.installs import Install
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.postgres import replication


class ReadOnlyComputes:
    def __init__(
        self, computes: Computes, running: RunningComputes, temporary: TemporaryComputes, volumes: Volumes
    ) -> None:
        self._computes = computes
        self._running = running
        self._temporary = temporary
        self._volumes = volumes

    async def prepare(self, spec: ComputeSpec, install: Install) -> ComputeSpec:
        """Its volume is one that it can begin with; the spec with what it needs. The caller holds the volume's lock."""
        folder = self._volumes.folder(spec.volume_id)
        is_told = await self._computes.is_provisioned(spec, install)
        stands = await asyncio.to_thread(standby_files.has_signal, folder.data)
        if not (stands and is_told):
            await self._running.stop(spec.endpoint_id)
            if not is_told or not await asyncio.to_thread(_is_shut_down_cleanly, folder):
                async with self._temporary.start_on(_branch(spec), install) as sockets:
                    await self._computes.provision(spec, install, sockets)
            await run_shielded(lambda: backup_label.remove_used_label(folder.data))
        return replace(spec, settings=await asyncio.to_thread(_settings, spec, folder))


def _is_shut_down_cleanly(folder: VolumeFolder) -> bool:
    """Whether the server that wrote last made its last checkpoint, and no recovery waits."""
    try:
        return (
            backup_label.read_pending_label(folder.data) is None
            and wal_segments.read_control_file(folder.data).is_shut_down
        )
    except (OSError, struct.error):
        return False


def _settings(spec: ComputeSpec, folder: VolumeFolder) -> dict[str, str]:
    """With less than the server had that wrote last it would not start."""
    try:
        return replication.raise_to_minimums(spec.settings, wal_segments.read_control_file(folder.data).limits)
    except (OSError, struct.error) as error:
        raise EngineError("The branch's control file cannot be read.", transient=False) from error


def _branch(spec: ComputeSpec) -> BranchSpec:
    return BranchSpec(project_id=spec.project_id, volume_id=spec.volume_id, install=spec.install)

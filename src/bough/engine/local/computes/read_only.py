"""Read-only computes: standbys without a primary.

A read-only compute starts from a clean shutdown, so that all WAL is replayed when it accepts connections, and its files
do not change. A standby cannot create roles and databases, so a temporary compute creates them first. When the branch
becomes writable again, the server replays the end of the WAL on the same timeline and continues.
"""

import asyncio
import struct
from dataclasses import replace

from bough.engine.local.computes import backup_label, standby_files
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.temporary_computes import TemporaryComputes
from bough.engine.local.installs.installs import Install
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.control_files import read_control_file
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
        """Prepare the volume and return the spec with the settings it requires. The caller holds the volume's lock."""
        folder = self._volumes.folder(spec.volume_id)
        is_provisioned = await self._computes.is_provisioned(spec, install)
        is_read_only = await asyncio.to_thread(standby_files.has_signal, folder.data)
        if not (is_read_only and is_provisioned):
            await self._running.stop(spec.endpoint_id)
            if not is_provisioned or not await asyncio.to_thread(_is_shut_down_cleanly, folder):
                async with self._temporary.start_on(_build_branch_spec(spec), install) as sockets:
                    await self._computes.provision(spec, install, sockets)
            await run_shielded(lambda: backup_label.remove_used_label(folder.data))
        return replace(spec, settings=await asyncio.to_thread(_build_settings, spec, folder))


def _is_shut_down_cleanly(folder: VolumeFolder) -> bool:
    """Return whether the last writable server made its shutdown checkpoint and no recovery is pending."""
    try:
        return backup_label.read_pending_label(folder.data) is None and read_control_file(folder.data).is_shut_down
    except (OSError, struct.error):
        return False


def _build_settings(spec: ComputeSpec, folder: VolumeFolder) -> dict[str, str]:
    """A standby does not start with lower limits than those of the server that wrote the WAL."""
    try:
        return replication.raise_to_minimums(spec.settings, read_control_file(folder.data).limits)
    except (OSError, struct.error) as error:
        raise EngineError("The branch's control file cannot be read.", transient=False) from error


def _build_branch_spec(spec: ComputeSpec) -> BranchSpec:
    return BranchSpec(project_id=spec.project_id, volume_id=spec.volume_id, install=spec.install)

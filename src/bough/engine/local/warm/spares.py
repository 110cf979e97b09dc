"""Spare computes: made from the template, started, and owned by nobody until a project takes one.

While it waits, a spare is a project, a branch and an endpoint of one name, which no row knows.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from bough.engine.local.branch_volumes import BranchVolumes
from bough.engine.local.computes import session
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.spare_assignment import is_spare, new_spare_name
from bough.engine.local.installs.installs import Install
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.postgres.template import SPARE_DATABASE


class SpareComputes:
    def __init__(
        self,
        branches: BranchVolumes,
        computes: Computes,
        running: RunningComputes,
        volumes: Volumes,
        project_users: ProjectUsers,
    ) -> None:
        self._branches = branches
        self._computes = computes
        self._running = running
        self._volumes = volumes
        self._project_users = project_users

    async def create(self, install: Install, settings: Mapping[str, str], cu: float) -> str:
        """The name of a new one that accepts connections."""
        name = new_spare_name()
        spec = replace(
            _spec(name, install, settings, cu),
            storage_limit_bytes=self._running.spare_assignment.last_storage_limit_bytes,
        )
        try:
            await self._branches.create(
                BranchSpec(project_id=spec.project_id, volume_id=spec.volume_id, install=install.id), install
            )
            if await self._computes.ensure_running(spec, install) is not Readiness.READY:
                raise EngineError("The spare compute takes too long to start.")
            await self._warm_caches(name)
        except BaseException:
            await self.remove(name)
            raise
        return name

    async def list_existing(self) -> list[str]:
        """Spares that the control before this one left, in whatever state."""
        noted = {str(endpoint) for endpoint in await self._running.list_endpoints() if is_spare(endpoint)}
        made = {str(volume) for volume in await self._volumes.list_volumes() if is_spare(volume)}
        return sorted(noted | made)

    async def is_usable(self, name: str, install: Install, settings: Mapping[str, str], cu: float) -> bool:
        """Whether it runs as a new one would, and still belongs to nobody."""
        folder = self._volumes.folder(VolumeId(name))
        record = await asyncio.to_thread(folder.read_record)
        if record is None or folder.path.is_symlink() or record.project_id != name:
            return False
        owned = await self._project_users.is_owner(ProjectId(name), folder)
        return owned and await self._computes.is_running_with(_spec(name, install, settings, cu), install)

    async def is_assigned(self, name: str) -> bool:
        """Whether its volume is a branch's by now; its compute waits for the endpoint."""
        return await asyncio.to_thread(self._volumes.folder(VolumeId(name)).path.is_symlink)

    async def assign(self, name: str, spec: BranchSpec) -> None:
        """Its volume becomes the branch's, and its user the project's."""
        record = await asyncio.to_thread(self._volumes.folder(VolumeId(name)).read_record)
        if record is None:
            raise EngineError("The spare compute is gone.")
        await self._project_users.reassign(ProjectId(name), spec.project_id)
        await run_shielded(lambda: self._running.spare_assignment.assign_volume(name, spec, record))

    async def is_running(self, name: str) -> bool:
        return await self._running.find_sockets(EndpointId(name)) is not None

    async def remove(self, name: str) -> None:
        """Nothing of it is left."""
        await self._running.stop(EndpointId(name), immediate=True)
        await self._running.stop_unrecorded(VolumeId(name))
        await self._volumes.ensure_absent(VolumeId(name), ProjectId(name))
        await self._project_users.release_if_unused(ProjectId(name))
        await self._running.delete_log(EndpointId(name))

    async def _warm_caches(self, name: str) -> None:
        """A first session builds what later ones find in its caches."""
        sockets = await self._running.find_sockets(EndpointId(name))
        if sockets is not None:
            async with session.open_session(sockets, SPARE_DATABASE) as ours:
                await ours.read_logical_bytes()


def _spec(name: str, install: Install, settings: Mapping[str, str], cu: float) -> ComputeSpec:
    return ComputeSpec(
        project_id=ProjectId(name),
        branch_id=BranchId(name),
        endpoint_id=EndpointId(name),
        volume_id=VolumeId(name),
        install=install.id,
        max_cu=cu,
        settings=settings,
        roles=(),
        databases=(),
    )

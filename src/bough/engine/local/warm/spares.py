"""Spare computes: created from the template and started before a project needs one.

Until it is assigned, a spare uses one name as project, branch and endpoint id. No row in the store has these ids.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from bough.engine.local.branch_volumes import BranchVolumes
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.preloading import restrict_to_existing
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.computes.session import open_session
from bough.engine.local.computes.spare_assignment import SpareAssignment, is_spare, new_spare_name
from bough.engine.local.installs.installs import Install
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.postgres.template import SPARE_DATABASE


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareConfig:
    """The configuration of every spare."""

    install: Install
    settings: Mapping[str, str]
    cu: float


class SpareComputes:
    def __init__(
        self,
        branches: BranchVolumes,
        computes: Computes,
        running: RunningComputes,
        volumes: Volumes,
        project_users: ProjectUsers,
        *,
        assignment: SpareAssignment,
    ) -> None:
        self._branches = branches
        self._computes = computes
        self._running = running
        self._volumes = volumes
        self._project_users = project_users
        self._assignment = assignment

    async def create(self, config: SpareConfig) -> str:
        """Create a spare that accepts connections. Return its name."""
        name, install = new_spare_name(), config.install
        spec = replace(
            _build_spec(name, config),
            storage_limit_bytes=self._assignment.last_storage_limit_bytes,
        )
        try:
            await self._branches.create(
                BranchSpec(project_id=spec.project_id, volume_id=spec.volume_id, install=install.pin), install
            )
            if await self._computes.ensure_running(spec, install) is not Readiness.READY:
                raise EngineError("The spare compute did not start in time.")
            await self._warm_caches(name)
        except BaseException:
            await self.remove(name)
            raise
        return name

    async def list_existing(self) -> list[str]:
        """Return the spares that an earlier control process left, in any state."""
        running = {str(endpoint) for endpoint in await self._running.list_endpoints() if is_spare(endpoint)}
        volumes = {str(volume) for volume in await self._volumes.list_volumes() if is_spare(volume)}
        return sorted(running | volumes)

    async def is_usable(self, name: str, config: SpareConfig) -> bool:
        """Return whether it runs with this configuration and is unassigned."""
        folder = self._volumes.folder(VolumeId(name))
        record = await asyncio.to_thread(folder.read_record)
        if record is None or folder.path.is_symlink() or record.project_id != name:
            return False
        is_owner = await self._project_users.is_owner(ProjectId(name), folder)
        return is_owner and await self._computes.is_running_with(_build_spec(name, config), config.install)

    async def is_assigned(self, name: str) -> bool:
        """Return whether its volume already belongs to a branch; its compute then waits for the endpoint."""
        return await asyncio.to_thread(self._volumes.folder(VolumeId(name)).path.is_symlink)

    async def assign(self, name: str, spec: BranchSpec) -> None:
        """Give its volume to the branch and its user to the project."""
        record = await asyncio.to_thread(self._volumes.folder(VolumeId(name)).read_record)
        if record is None:
            raise EngineError("The volume of the spare compute no longer exists.")
        await self._project_users.reassign(ProjectId(name), spec.project_id)
        await run_shielded(lambda: self._assignment.assign_volume(name, spec, record))

    async def is_running(self, name: str) -> bool:
        return await self._running.find_sockets(EndpointId(name)) is not None

    async def remove(self, name: str) -> None:
        """Stop it and remove everything that belongs to it."""
        await self._running.stop(EndpointId(name), immediate=True)
        await self._running.stop_unrecorded(VolumeId(name))
        await self._volumes.ensure_absent(VolumeId(name), ProjectId(name))
        await self._project_users.release_if_unused(ProjectId(name))
        await self._running.delete_log(EndpointId(name))

    async def _warm_caches(self, name: str) -> None:
        """Open a first session, which fills caches that later sessions use."""
        sockets = await self._running.find_sockets(EndpointId(name))
        if sockets is not None:
            async with open_session(sockets, SPARE_DATABASE) as session:
                await session.read_logical_bytes()


def _build_spec(name: str, config: SpareConfig) -> ComputeSpec:
    spec = ComputeSpec(
        project_id=ProjectId(name),
        branch_id=BranchId(name),
        endpoint_id=EndpointId(name),
        volume_id=VolumeId(name),
        install=config.install.pin,
        max_cu=config.cu,
        settings=config.settings,
        roles=(),
        databases=(),
    )
    return restrict_to_existing(spec, config.install)

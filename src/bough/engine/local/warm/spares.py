"""Spare computes: made from the template, started, and owned by nobody until a project takes one.

While it waits, a spare is a project, a branch and an endpoint of one name, which no row knows.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from bough.engine.local.branches import Branches
from bough.engine.local.computes import session
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.handover import is_spare, new_name
from bough.engine.local.computes.living import Living
from bough.engine.local.installs.installs import Install
from bough.engine.local.owners import Owners
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.postgres.template import SPARE_DATABASE


class Spares:
    def __init__(
        self, branches: Branches, computes: Computes, living: Living, volumes: Volumes, owners: Owners
    ) -> None:
        self._branches = branches
        self._computes = computes
        self._living = living
        self._volumes = volumes
        self._owners = owners

    async def make(self, install: Install, settings: Mapping[str, str], cu: float) -> str:
        """The name of a new one that accepts connections."""
        name = new_name()
        spec = replace(_spec(name, install, settings, cu), storage_bytes=self._living.handover.storage_bytes)
        try:
            await self._branches.make(
                BranchSpec(project_id=spec.project_id, volume_id=spec.volume_id, install=install.id), install
            )
            if await self._computes.ensure(spec, install) is not Readiness.READY:
                raise EngineError("The spare compute takes too long to start.")
            await self._look_in(name)
        except BaseException:
            await self.sweep(name)
            raise
        return name

    async def left_over(self) -> list[str]:
        """Spares that the control before this one left, in whatever state."""
        noted = {str(endpoint) for endpoint in await self._living.running() if is_spare(endpoint)}
        made = {str(volume) for volume in await self._volumes.present() if is_spare(volume)}
        return sorted(noted | made)

    async def is_usable(self, name: str, install: Install, settings: Mapping[str, str], cu: float) -> bool:
        """Whether it runs as a new one would, and still belongs to nobody."""
        folder = self._volumes.folder(VolumeId(name))
        record = await asyncio.to_thread(folder.read)
        if record is None or folder.path.is_symlink() or record.project_id != name:
            return False
        owned = await self._owners.is_owner(ProjectId(name), folder)
        return owned and await self._computes.runs_as(_spec(name, install, settings, cu), install)

    async def is_taken(self, name: str) -> bool:
        """Whether its volume is a branch's by now; its compute waits for the endpoint."""
        return await asyncio.to_thread(self._volumes.folder(VolumeId(name)).path.is_symlink)

    async def give(self, name: str, spec: BranchSpec) -> None:
        """Its volume becomes the branch's, and its user the project's."""
        record = await asyncio.to_thread(self._volumes.folder(VolumeId(name)).read)
        if record is None:
            raise EngineError("The spare compute is gone.")
        await self._owners.hand_over(ProjectId(name), spec.project_id)
        await unbroken(lambda: self._living.handover.give_volume(name, spec, record))

    async def is_alive(self, name: str) -> bool:
        return await self._living.sockets(EndpointId(name)) is not None

    async def sweep(self, name: str) -> None:
        """Nothing of it is left."""
        await self._living.stop(EndpointId(name), at_once=True)
        await self._living.stop_unknown(VolumeId(name))
        await self._volumes.ensure_absent(VolumeId(name), ProjectId(name))
        await self._owners.release_when_empty(ProjectId(name))
        await self._living.forget_log(EndpointId(name))

    async def _look_in(self, name: str) -> None:
        """A first session builds what later ones find in its caches."""
        sockets = await self._living.sockets(EndpointId(name))
        if sockets is not None:
            async with session.opened(sockets, SPARE_DATABASE) as ours:
                await ours.logical_bytes()


def _spec(name: str, install: Install, settings: Mapping[str, str], cu: float) -> ComputeSpec:
    return ComputeSpec(
        project_id=ProjectId(name),
        branch_id=BranchId(name),
        endpoint_id=EndpointId(name),
        volume_id=VolumeId(name),
        install=install.id,
        cu=cu,
        settings=settings,
        roles=(),
        databases=(),
    )

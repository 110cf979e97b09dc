"""The engine of this machine: the port, made of the files beside it."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from bough.config import Settings
from bough.engine.local import installs, session
from bough.engine.local.computes import Computes
from bough.engine.local.folders import Folders
from bough.engine.local.installs import Install
from bough.engine.local.progress import Progress, silent
from bough.engine.local.refusals import machine_refusals
from bough.engine.local.sandbox import Identity, Sandbox, our_name
from bough.engine.local.template import Templates
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.detect import choose
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.port import Address, Capabilities, EngineError, Observation, Readiness, Usage
from bough.engine.spec import BranchSpec, ComputeSpec
from bough.ids import EndpointId, ProjectId, VolumeId


class LocalEngine:
    """Call `prepare` first and `close` at the end; computes go on running.

    Looking and suspending work without `prepare`, for a home that nobody serves.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folders = Folders(settings)
        self._sandbox = Sandbox(settings)
        self._volumes = choose(settings)
        self._templates = Templates(self._folders.templates)
        self._computes = Computes(self._folders, self._volumes, our_name())
        self._installs: dict[str, Install] = {}
        self._locks = Locks()
        self._making: Counter[ProjectId] = Counter()

    async def prepare(self, progress: Progress = silent) -> None:
        """Folders, installs and templates are there; what a crash left is tidied, what runs is adopted."""
        with machine_refusals():
            await unbroken(self._folders.ensure)
            await unbroken(self._sandbox.ensure_ready)
            self._installs = await asyncio.to_thread(installs.found, self._settings.cache)
            await self._volumes.ensure_tidy()
            await self._computes.adopt()
            for install in self._wished_installs():
                await unbroken(partial(self._templates.ensure, install, progress))

    async def close(self) -> None:
        await asyncio.to_thread(self._volumes.close)

    def capabilities(self) -> Capabilities:
        offered = installs.preferred(self._installs.values())
        return Capabilities(
            installs={major: install.id for major, install in sorted(offered.items())},
            isolation=self._sandbox.isolates,
            driver=self._volumes.driver,
        )

    async def ensure_branch(self, spec: BranchSpec) -> None:
        async with self._locks.of(spec.volume_id):
            with machine_refusals():
                await self._ensure_volume(spec)

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        install = await self._install(spec.install)
        async with self._locks.of(spec.endpoint_id), self._locks.of(spec.volume_id):
            with machine_refusals():
                return await self._computes.ensure(spec, install)

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        async with self._locks.of(endpoint):
            with machine_refusals():
                await self._computes.stop(endpoint)

    async def ensure_absent(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._locks.of(volume):
            if await self._computes.serves(volume):
                raise EngineError("A compute still runs on the branch; suspend it first.")
            with machine_refusals():
                await self._volumes.ensure_absent(volume)
        async with self._locks.of(project):
            with machine_refusals():
                await self._release_when_empty(project)

    async def address(self, endpoint: EndpointId) -> Address | None:
        sockets = await self._computes.sockets(endpoint)
        return None if sockets is None else Address(host=str(sockets), port=5432)

    async def usage(self, endpoint: EndpointId) -> Usage | None:
        sockets = await self._computes.sockets(endpoint)
        if sockets is None:
            return None
        async with session.opened(sockets) as ours:
            return Usage(logical_bytes=await ours.logical_bytes())

    async def observe(self) -> Observation:
        return Observation(running=await self._computes.running(), volumes=await self._volumes.present())

    async def _ensure_volume(self, spec: BranchSpec) -> None:
        if await asyncio.to_thread(self._volumes.folder(spec.volume_id).path.exists):
            return
        await asyncio.to_thread(self._check_space)
        install = await self._install(spec.install)
        template = await unbroken(lambda: self._templates.ensure(install))
        record = VolumeRecord(project_id=spec.project_id, install=install.id)
        async with self._identity(spec.project_id) as owner:
            await self._volumes.ensure_volume(spec.volume_id, template, record, owner)

    def _wished_installs(self) -> list[Install]:
        offered = installs.preferred(self._installs.values())
        missing = [major for major in self._settings.postgres_versions if major not in offered]
        if missing:
            raise EngineError(
                f"Postgres {missing[0]} is not on this machine: start with `bough up`, which fetches it.",
                transient=False,
            )
        return [offered[major] for major in self._settings.postgres_versions]

    async def _install(self, wanted: str) -> Install:
        """One that is not known may have been fetched since the start."""
        if wanted not in self._installs:
            self._installs = await asyncio.to_thread(installs.found, self._settings.cache)
        install = self._installs.get(wanted)
        if install is None:
            raise EngineError(
                f"The project needs the Postgres build {wanted}, which is not on this machine.", transient=False
            )
        return install

    def _check_space(self) -> None:
        disk = os.statvfs(self._folders.volumes)
        if disk.f_bavail * disk.f_frsize < self._settings.free_space_floor:
            raise EngineError(
                f"The disk of {self._folders.home} has less free space than free_space_floor "
                f"({self._settings.free_space_floor // 1024**2} MB), so nothing new is made: free some space.",
                transient=False,
            )

    @asynccontextmanager
    async def _identity(self, project: ProjectId) -> AsyncIterator[Identity]:
        """The project's user, who is not released while a first volume is being made."""
        self._making[project] += 1
        try:
            async with self._locks.of(project):
                owner = await unbroken(lambda: self._sandbox.identity(project))
            yield owner
        finally:
            self._making[project] -= 1

    async def _release_when_empty(self, project: ProjectId) -> None:
        volumes = await self._volumes.present()
        if not self._making[project] and not await asyncio.to_thread(self._any_of, volumes, project):
            await unbroken(lambda: self._sandbox.release(project))

    def _any_of(self, volumes: frozenset[VolumeId], project: ProjectId) -> bool:
        records = (self._volumes.folder(volume).read() for volume in volumes)
        return any(record is not None and record.project_id == project for record in records)

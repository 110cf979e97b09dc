"""The engine of this machine: the port, made of the files beside it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial

from bough.config import Settings
from bough.domain.change import Change, Empty, MakeRole
from bough.engine.local import space
from bough.engine.local.branches import Branches
from bough.engine.local.computes import admitting, changes, emptying
from bough.engine.local.computes.compute_log import LacksSettings
from bough.engine.local.computes.computes import Computes
from bough.engine.local.computes.handover import is_spare
from bough.engine.local.computes.living import Living
from bough.engine.local.computes.private import PrivateComputes
from bough.engine.local.computes.sizing import Sizes
from bough.engine.local.computes.standings import Standings
from bough.engine.local.computes.still import StillComputes
from bough.engine.local.folders import Folders
from bough.engine.local.history.figures import own_bytes
from bough.engine.local.history.histories import Histories
from bough.engine.local.installs.installs import Install
from bough.engine.local.installs.offer import Offer
from bough.engine.local.isolation import cgroups
from bough.engine.local.isolation.sandbox import Sandbox
from bough.engine.local.looking import Looking
from bough.engine.local.owners import Owners
from bough.engine.local.packing import Packing
from bough.engine.local.progress import Progress, silent
from bough.engine.local.refusals import machine_refusals
from bough.engine.local.replicas import Replicas
from bough.engine.local.template import Templates
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.detect import choose
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.local.warm.pool import Shape, WarmPool
from bough.engine.local.warm.spares import Spares
from bough.engine.port import (
    ALL_LISTED,
    Address,
    Capabilities,
    Contents,
    EngineError,
    Following,
    Kept,
    Listing,
    Observation,
    Origin,
    Readiness,
    Reading,
    Storage,
    Usage,
)
from bough.engine.spec import BranchSpec, ComputeSpec, Follow, compute_settings
from bough.ids import EndpointId, ProjectId, VolumeId
from bough.postgres.hba import NAMES_EVERY_ROLE_BEFORE


class LocalEngine:
    """Call `prepare` first and `close` at the end; computes go on running.

    Looking and suspending work without `prepare`, for a home that nobody serves. `spare_cu` is the
    size of the computes in the warm pool; without it there is none.
    """

    def __init__(self, settings: Settings, *, spare_cu: float | None = None) -> None:
        self._settings = settings
        self._spare_cu = spare_cu
        self._folders = Folders(settings)
        self._offer = Offer(settings.cache)
        self._sandbox = Sandbox(settings)
        self._volumes = Volumes(self._folders.volumes, self._folders.history)
        self._templates = Templates(self._folders.templates, self._volumes)
        self._groups = cgroups.found(settings)
        entrants = self._sandbox.entrants
        self._living = Living(self._folders, self._volumes, entrants, self._groups)
        self._computes = Computes(self._living, self._folders, self._volumes, entrants, self._groups)
        self._private = PrivateComputes(self._computes, self._living)
        self._still = StillComputes(self._computes, self._living, self._private, self._volumes)
        self._sizes = Sizes(self._living.runs, self._volumes, self._groups)
        self._owners = Owners(self._sandbox, self._volumes)
        self._locks = Locks()
        self._branches = Branches(self._volumes, self._templates, self._living, self._owners, self._locks)
        self._histories = Histories(
            self._volumes,
            self._templates,
            self._branches,
            living=self._living,
            private=self._private,
            owners=self._owners,
            locks=self._locks,
            offer=self._offer,
            spools=self._folders.spools,
            shortage=lambda: space.shortage(self._folders, settings.free_space_floor),
            base_bytes=settings.history_base_bytes,
        )
        self._packing = Packing(self._volumes, self._living, self._folders, floor=settings.free_space_floor)
        self._replicas = Replicas(
            self._branches, self._living, self._folders, self._volumes, self._locks, check=self._check_new
        )
        self._standings = Standings(self._living, self._volumes, self._replicas.primaries)
        self._looking = Looking(self._living, self._standings, self._sizes, self._folders, self._volumes)
        self._warm = WarmPool(
            Spares(self._branches, self._computes, self._living, self._volumes, self._owners),
            size=settings.warm_pool if spare_cu else 0,
            memory_share=settings.warm_memory_share,
            busy=lambda: self._waiting > 0,
            check=self._check_new,
        )
        self._waiting = 0  # callers that wait for a branch or a compute

    async def prepare(self, progress: Progress = silent) -> None:
        """Folders, installs and templates are there; what a crash left is tidied, what runs is adopted."""
        with machine_refusals():
            await unbroken(self._folders.ensure)
            driver = await unbroken(lambda: choose(self._settings.storage, self._folders.volumes))
            self._volumes.use(driver, self._folders.wal)
            await unbroken(self._sandbox.ensure_ready)
            await unbroken(self._groups.ensure_ready)
            await self._offer.look()
            await self._volumes.ensure_tidy()
            await self._living.adopt()
            await self._histories.ensure_tidy()
            wished = self._offer.of_majors(self._settings.postgres_versions)
            for install in wished:
                await unbroken(partial(self._templates.ensure, install, progress))
            await self._warm.open(self._spare_shape(wished[0]))
            await self._owners.release_idle()

    async def stop_private(self) -> None:
        """Computes that a control which was killed started for itself; `prepare` does it too."""
        await self._living.stop_private()

    async def close(self) -> None:
        await self._warm.close()
        await asyncio.to_thread(self._packing.close)
        await asyncio.to_thread(self._volumes.close)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            installs={major: install.id for major, install in self._offer.preferred().items()},
            isolation=self._sandbox.isolates,
            limits=self._groups.sentence,
            driver=self._volumes.driver.name,
            refuses_new=space.refusal(self._folders, self._settings.free_space_floor),
        )

    async def ensure_branch(self, spec: BranchSpec) -> Origin:
        install = await self._offer.pinned(spec.install)
        door = self._served if spec.point.is_head else self._alone  # to go back may take minutes
        async with door(spec.volume_id):
            known = await asyncio.to_thread(self._volumes.folder(spec.volume_id).read)
            if known is None or known.pending:
                return await self._make(spec, install, is_pending=known is not None)
            return known.origin if known.parent is not None else await self._histories.first(install)

    async def _make(self, spec: BranchSpec, install: Install, *, is_pending: bool) -> Origin:
        await asyncio.to_thread(self._check_new)
        if is_pending:
            await self._histories.drop_pending(spec.volume_id, spec.project_id)
        if spec.parent is not None and (not spec.point.is_head or await self._histories.is_retired(spec.parent)):
            return await self._histories.make(spec, spec.parent, install)
        if await self._owners.has_none(spec.project_id) and await self._warm.take(spec):
            return await self._histories.first(install)
        origin = await self._branches.make(spec, install)
        return origin if spec.parent is not None else await self._histories.first(install)

    async def change(self, spec: BranchSpec, change: Change) -> None:
        install = await self._offer.pinned(spec.install)
        async with self._served(spec.volume_id):
            sockets = await self._living.settled(spec.volume_id)
            if sockets is not None:
                await changes.make(sockets, change, install.major)
                if isinstance(change, MakeRole) and install.major < NAMES_EVERY_ROLE_BEFORE:
                    folder = self._volumes.folder(spec.volume_id)
                    await admitting.admit(change.name, folder, sockets, self._sandbox.entrants)
                return
            settings = emptying.SETTINGS if isinstance(change, Empty) else None
            async with self._private.on(spec, install, settings) as own:
                await changes.make(own, change, install.major)

    async def ensure_running(self, spec: ComputeSpec) -> Readiness:
        install = await self._offer.pinned(spec.install)
        async with self._served(spec.endpoint_id), self._locks.of(spec.volume_id):
            if spec.follows is not None:
                return await self._ensure_follows(spec, spec.follows, install)
            if spec.stands:
                spec = await self._still.prepared(spec, install)
            readiness = await self._computes.ensure(spec, install)
            if readiness is Readiness.READY:
                await self._replicas.welcome(spec)
            return readiness

    async def _ensure_follows(self, spec: ComputeSpec, follow: Follow, install: Install) -> Readiness:
        """What it needs it may find out only on the way: then once more with that."""
        with suppress(LacksSettings):
            return await self._computes.ensure(await self._replicas.prepared(spec, follow, install), install)
        return await self._computes.ensure(await self._replicas.prepared(spec, follow, install), install)

    async def ensure_suspended(self, endpoint: EndpointId) -> None:
        is_nobodys = False
        if is_spare(endpoint):  # whoever stops these stops the platform
            await self._warm.close()
            is_nobodys = not await self._warm.is_taken(endpoint)
        async with self._alone(endpoint):
            await self._living.stop(endpoint, at_once=is_nobodys)

    async def ensure_absent(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._alone(volume):
            await self._check_unserved(volume)
            await self._histories.drop_bases(project, volume)
            await self._replicas.forget(volume)
            await self._volumes.ensure_absent(volume, project)
            await self._histories.drop_archive(volume, project)
            await self._owners.release_when_empty(project)

    async def look_into(self, spec: BranchSpec, listing: Listing = ALL_LISTED) -> Contents:
        install = await self._offer.pinned(spec.install)
        async with self._served(spec.volume_id):
            sockets = await self._living.settled(spec.volume_id)
            if sockets is not None:
                return await self._looking.into(sockets, listing)
            seen = await self._histories.glances.take(spec.volume_id)
            if seen is not None and seen.fits(listing):
                return seen
            async with self._private.on(spec, install) as own:
                return await self._looking.into(own, listing)

    async def written_until(self, volume: VolumeId) -> str | None:
        return await self._histories.ends.of(volume)

    async def keep_history(self, volume: VolumeId, since: datetime, *, bases: bool = True) -> Kept:
        with machine_refusals():
            await asyncio.to_thread(self._folders.check_storage)
            return await self._histories.keeping.keep(volume, since, bases=bases)

    async def ensure_begun(self, project: ProjectId, volume: VolumeId) -> Kept:
        async with self._alone(volume):
            await self._check_unserved(volume)
        with machine_refusals():
            return await self._histories.keeping.begin(volume)

    async def retire(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._alone(volume):
            await self._check_unserved(volume)
            await self._replicas.forget(volume)
            await self._histories.retiring.retire(volume, project)

    async def ensure_packed(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._alone(volume):
            await self._packing.pack(volume)

    async def ensure_unpacked(self, project: ProjectId, volume: VolumeId) -> None:
        async with self._served(volume):
            await self._packing.unpack(volume)

    async def size(self, volume: VolumeId) -> int | None:
        record = await asyncio.to_thread(self._volumes.folder(volume).read)
        if record is None:
            return None
        with machine_refusals():
            return await self._volumes.work(lambda: own_bytes(self._volumes, volume), record.project_id)

    async def address(self, endpoint: EndpointId) -> Address | None:
        sockets = await self._living.sockets(endpoint)
        return None if sockets is None else Address(host=str(sockets), port=5432)

    async def usage(self, endpoint: EndpointId) -> Usage | None:
        return await self._looking.usage(endpoint)

    async def cpu_seconds(self) -> Mapping[EndpointId, float]:
        return await self._looking.cpu_seconds()

    async def stored(self, endpoint: EndpointId) -> Storage | None:
        return await self._looking.stored(endpoint)

    async def following(self, endpoint: EndpointId) -> Following | None:
        return await self._standings.following(endpoint)

    async def contents(self, endpoint: EndpointId, listing: Listing = ALL_LISTED) -> Contents | None:
        return await self._looking.contents(endpoint, listing)

    async def is_busy(self, endpoint: EndpointId) -> bool:
        return await self._looking.is_busy(endpoint)

    async def load(self, endpoint: EndpointId) -> Reading | None:
        return await asyncio.to_thread(self._sizes.reading, endpoint)

    async def resize(self, endpoint: EndpointId, cu: float) -> None:
        async with self._alone(endpoint):
            await unbroken(lambda: self._sizes.set(endpoint, cu))

    async def observe(self) -> Observation:
        return await self._looking.observe()

    async def _check_unserved(self, volume: VolumeId) -> None:
        """No compute of an endpoint runs on it, and none of ours is left on it."""
        await self._living.stop_own(volume)
        if await self._living.serves(volume):
            raise EngineError("A compute still runs on the branch; suspend it first.")

    def _spare_shape(self, install: Install) -> Shape:
        cu = self._spare_cu or 0.25
        return Shape(install=install, settings=compute_settings(cu, logical_replication=False), cu=cu)

    def _check_new(self) -> None:
        """Before anything new is made: the storage is there, and has room."""
        self._folders.check_storage()
        space.check(self._folders, self._settings.free_space_floor)

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        """One caller at a time for a name, and never without the storage: an absence there would be believed."""
        async with self._locks.of(name):
            with machine_refusals():
                await asyncio.to_thread(self._folders.check_storage)
                yield

    @asynccontextmanager
    async def _served(self, name: str) -> AsyncIterator[None]:
        """The same for a caller who waits to go on: the warm pool lets it pass."""
        self._waiting += 1
        try:
            async with self._alone(name):
                yield
        finally:
            self._waiting -= 1

"""A volume as another was at a point of its life: laid on a base, and recovered by a server of our own.

The volume it is made of may run, sleep, have been killed or be retired, and nothing of it changes. Until the server
has come to the point, and has ended well, the new volume is pending: it is nobody's, and whoever asks for it again has
it made anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

from bough import log
from bough.domain.history import HEAD
from bough.engine.local.computes import session
from bough.engine.local.computes.compute_log import RanOut, TooEarly
from bough.engine.local.computes.private import PrivateComputes
from bough.engine.local.history import laying
from bough.engine.local.history.ancestry import Lives
from bough.engine.local.history.gathering import Gathering
from bough.engine.local.history.glances import Glances
from bough.engine.local.history.laying import Ground
from bough.engine.local.history.planning import Plan, plans
from bough.engine.local.history.turns import Turns
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.owners import Owners
from bough.engine.local.threads import unbroken
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import Contents, EngineError, Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import recovery

logger = log.get(room="engine")


@dataclass(frozen=True, slots=True)
class _Wish:
    spec: BranchSpec
    parent: VolumeId
    install: Install
    owner: Identity


class Recovering:
    def __init__(
        self,
        lives: Lives,
        gathering: Gathering,
        turns: Turns,
        glances: Glances,
        *,
        volumes: Volumes,
        private: PrivateComputes,
        owners: Owners,
    ) -> None:
        self._lives = lives
        self._gathering = gathering
        self._turns = turns
        self._glances = glances
        self._volumes = volumes
        self._private = private
        self._owners = owners

    async def make(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin:
        """The volume, which does not exist. After a failure nothing of it does."""
        try:
            async with self._owners.of(spec.project_id) as owner:
                return await self._go_any_way(_Wish(spec, parent, install, owner))
        except BaseException:
            await self._owners.release_when_empty(spec.project_id)
            raise

    async def drop(self, volume: VolumeId, project: ProjectId) -> None:
        """A pending volume, and what it archived: the next of this name begins with other WAL."""
        await self._private.end(volume)
        await self._volumes.ensure_absent(volume, project)
        await self._gathering.forget_archived(volume, project)

    async def _go_any_way(self, wish: _Wish) -> Origin:
        """The shortest. Only a clock that was set back makes a base look earlier than it is: then the next."""
        for way in count():
            try:
                return await self._go(wish, way)
            except TooEarly as error:
                logger.warning("base_too_late", volume_id=wish.parent, reason=str(error))
        raise AssertionError("an error ends it")

    async def _go(self, wish: _Wish, way: int) -> Origin:
        volume = wish.spec.volume_id
        try:
            async with self._turns.gathering(wish.spec.project_id):
                plan = await unbroken(lambda: self._plan(wish, way))
                spool = await self._gathering.gather(plan, wish.parent, wish.spec, wish.owner)
                await self._lay(wish, plan.begins)
            replayed, contents = await self._replayed(wish, plan, str(spool))
            at = replayed.at or wish.spec.point.at or laying.moment_of(plan.begins)
            whole = replace(replayed, at=at)
            folder = self._volumes.folder(volume)
            origin = await self._volumes.work(lambda: laying.finish(folder, whole), wish.spec.project_id)
            await self._glances.note(volume, contents)
            return origin
        except BaseException:
            await self.drop(volume, wish.spec.project_id)
            raise
        finally:
            await self._gathering.forget(volume, wish.spec.project_id)

    def _plan(self, wish: _Wish, way: int) -> Plan[Ground]:
        ancestry = self._lives.of(wish.parent)
        if not ancestry.lives:
            raise EngineError("The parent branch's volume does not exist.", transient=False)
        found = plans(ancestry.lives, ancestry.template, wish.spec.point)
        if way >= len(found):
            raise EngineError("The branch's history does not go back to that point.", transient=False)
        return found[way]

    async def _lay(self, wish: _Wish, ground: Ground) -> None:
        spec = wish.spec
        record = VolumeRecord(
            project_id=spec.project_id,
            install=spec.install,
            parent=wish.parent,
            begins_itself=spec.is_snapshot,
            pending=True,
        )
        async with self._volumes.new(spec.volume_id, record, wish.owner) as made:
            await self._volumes.work(lambda: laying.lay(made, ground), spec.project_id)

    async def _replayed(self, wish: _Wish, plan: Plan[Ground], spool: str) -> tuple[Origin, Contents]:
        """How far the server came. A point after the last commit means all of it, and has to be said so."""
        try:
            return await self._run(wish, recovery.settings(spool, wish.spec.point, timeline=plan.timeline))
        except RanOut:
            return await self._run(wish, recovery.settings(spool, HEAD, timeline=plan.timeline))

    async def _run(self, wish: _Wish, settings: Mapping[str, str]) -> tuple[Origin, Contents]:
        async with (
            self._private.replaying(wish.spec, wish.install, settings) as sockets,
            session.opened(sockets) as ours,
        ):
            origin = Origin(at=await ours.last_replayed(), subscribes=await ours.subscribes())
            return origin, await ours.contents()

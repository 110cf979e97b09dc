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
from bough.engine.local.computes.compute_log import TargetBeforeConsistency, WalEndedBeforeTarget
from bough.engine.local.computes.temporary_computes import TemporaryComputes
from bough.engine.local.history import base_restore
from bough.engine.local.history.ancestry import LineageReader
from bough.engine.local.history.base_restore import BaseOrTemplate
from bough.engine.local.history.contents_cache import ContentsCache
from bough.engine.local.history.prune_lock import PruneLock
from bough.engine.local.history.recovery_plan import RecoveryPlan, plan_recovery
from bough.engine.local.history.spool_builder import SpoolBuilder
from bough.engine.local.installs.installs import Install
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.project_users import ProjectUsers
from bough.engine.local.threads import run_shielded
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import BranchContents, EngineError, Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import recovery

logger = log.get_logger(component="engine")


@dataclass(frozen=True, slots=True)
class _Request:
    spec: BranchSpec
    parent: VolumeId
    install: Install
    owner: Identity


class PointInTimeRecovery:
    def __init__(
        self,
        lineages: LineageReader,
        spools: SpoolBuilder,
        prune_lock: PruneLock,
        contents_cache: ContentsCache,
        *,
        volumes: Volumes,
        temporary: TemporaryComputes,
        project_users: ProjectUsers,
    ) -> None:
        self._lineages = lineages
        self._spools = spools
        self._prune_lock = prune_lock
        self._contents_cache = contents_cache
        self._volumes = volumes
        self._temporary = temporary
        self._project_users = project_users

    async def create_volume(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin:
        """The volume, which does not exist. After a failure nothing of it does."""
        try:
            async with self._project_users.acquire(spec.project_id) as owner:
                return await self._try_plans(_Request(spec, parent, install, owner))
        except BaseException:
            await self._project_users.release_if_unused(spec.project_id)
            raise

    async def drop_pending(self, volume: VolumeId, project: ProjectId) -> None:
        """A pending volume, and what it archived: the next of this name begins with other WAL."""
        await self._temporary.stop_on(volume)
        await self._volumes.ensure_absent(volume, project)
        await self._spools.remove_archive(volume, project)

    async def _try_plans(self, wish: _Request) -> Origin:
        """The shortest. Only a clock that was set back makes a base look earlier than it is: then the next."""
        for way in count():
            try:
                return await self._try_plan(wish, way)
            except TargetBeforeConsistency as error:
                logger.warning("base_too_late", volume_id=wish.parent, reason=str(error))
        raise AssertionError("an error ends it")

    async def _try_plan(self, wish: _Request, way: int) -> Origin:
        volume = wish.spec.volume_id
        try:
            async with self._prune_lock.shared(wish.spec.project_id):
                plan = await run_shielded(lambda: self._plan(wish, way))
                spool = await self._spools.build(plan, wish.parent, wish.spec, wish.owner)
                await self._restore_base(wish, plan.start)
            replayed, contents = await self._replay(wish, plan, str(spool))
            at = replayed.at or wish.spec.point.at or base_restore.base_time(plan.start)
            whole = replace(replayed, at=at)
            folder = self._volumes.folder(volume)
            origin = await self._volumes.run_blocking(
                lambda: base_restore.finish_recovery(folder, whole), wish.spec.project_id
            )
            await self._contents_cache.put(volume, contents)
            return origin
        except BaseException:
            await self.drop_pending(volume, wish.spec.project_id)
            raise
        finally:
            await self._spools.remove(volume, wish.spec.project_id)

    def _plan(self, wish: _Request, way: int) -> RecoveryPlan[BaseOrTemplate]:
        ancestry = self._lineages.read(wish.parent)
        if not ancestry.lineages:
            raise EngineError("The parent branch's volume does not exist.", transient=False)
        found = plan_recovery(ancestry.lineages, ancestry.template, wish.spec.point)
        if way >= len(found):
            raise EngineError("The branch's history does not go back to that point.", transient=False)
        return found[way]

    async def _restore_base(self, wish: _Request, ground: BaseOrTemplate) -> None:
        spec = wish.spec
        record = VolumeRecord(
            project_id=spec.project_id,
            install=spec.install,
            parent=wish.parent,
            begins_itself=spec.is_snapshot,
            pending=True,
        )
        async with self._volumes.create(spec.volume_id, record, wish.owner) as made:
            await self._volumes.run_blocking(lambda: base_restore.restore_base(made, ground), spec.project_id)

    async def _replay(
        self, wish: _Request, plan: RecoveryPlan[BaseOrTemplate], spool: str
    ) -> tuple[Origin, BranchContents]:
        """How far the server came. A point after the last commit means all of it, and has to be said so."""
        try:
            return await self._run(wish, recovery.recovery_settings(spool, wish.spec.point, timeline=plan.timeline))
        except WalEndedBeforeTarget:
            return await self._run(wish, recovery.recovery_settings(spool, HEAD, timeline=plan.timeline))

    async def _run(self, wish: _Request, settings: Mapping[str, str]) -> tuple[Origin, BranchContents]:
        async with (
            self._temporary.start_recovery(wish.spec, wish.install, settings) as sockets,
            session.open_session(sockets) as ours,
        ):
            origin = Origin(
                at=await ours.read_last_replay_timestamp(), has_subscriptions=await ours.has_subscriptions()
            )
            return origin, await ours.read_contents()

"""Point-in-time recovery: creates a volume as another volume was at a point of its history.

A base is restored, and a temporary server replays WAL up to the point. The parent may be running, stopped, killed or
retired; nothing of it changes. Until the server has reached the point and shut down cleanly the new volume is pending:
no compute may open it, and the next request for it starts over.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

from bough import log
from bough.domain.history import HEAD
from bough.engine.local.computes import session
from bough.engine.local.computes.compute_log import TargetBeforeConsistency, WalEndedBeforeTarget
from bough.engine.local.computes.extension_reading import read_extensions
from bough.engine.local.computes.temporary_computes import TemporaryComputes
from bough.engine.local.history import base_restore
from bough.engine.local.history.ancestry import LineageReader
from bough.engine.local.history.base_restore import BaseOrTemplate
from bough.engine.local.history.contents_cache import ContentsCache
from bough.engine.local.history.prune_lock import PruneLock
from bough.engine.local.history.recovery_plan import RecoveryPlan, plan_recovery
from bough.engine.local.history.spool_builder import SpoolBuilder
from bough.engine.local.history.wal_archives import WalArchives
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

_EXTENSIONS_TIMEOUT = 10.0  # seconds

logger = log.get_logger(component="engine")


@dataclass(frozen=True, slots=True)
class _Request:
    spec: BranchSpec
    parent: VolumeId
    install: Install
    template: str
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
        archives: WalArchives,
        temporary: TemporaryComputes,
        project_users: ProjectUsers,
    ) -> None:
        self._lineages = lineages
        self._spools = spools
        self._prune_lock = prune_lock
        self._contents_cache = contents_cache
        self._volumes = volumes
        self._archives = archives
        self._temporary = temporary
        self._project_users = project_users

    async def create_volume(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin:
        """Create the volume, which must not exist. A failure leaves nothing behind."""
        record = await asyncio.to_thread(self._archives.read_record, parent)
        if record is None:
            raise EngineError("The parent branch's volume does not exist.", transient=False)
        try:
            async with self._project_users.acquire(spec.project_id) as owner:
                return await self._try_plans(_Request(spec, parent, install, record.template, owner))
        except BaseException:
            await self._project_users.release_if_unused(spec.project_id)
            raise

    async def drop_pending(self, volume: VolumeId, project: ProjectId) -> None:
        """Remove a pending volume and its archive: the next volume of this name starts with different WAL."""
        await self._temporary.stop_on(volume)
        await self._volumes.ensure_absent(volume, project)
        await self._archives.drop(volume, project)

    async def _try_plans(self, request: _Request) -> Origin:
        """Try the shortest plan, and the next one if its base turns out to be later than the point.

        That happens when the machine's clock was set back.
        """
        for attempt in count():
            try:
                return await self._try_plan(request, attempt)
            except TargetBeforeConsistency as error:
                logger.warning("base_too_late", volume_id=request.parent, reason=str(error))
        raise AssertionError("an error ends the loop")

    async def _try_plan(self, request: _Request, attempt: int) -> Origin:
        spec = request.spec
        try:
            async with self._prune_lock.shared(spec.project_id):
                plan = await run_shielded(lambda: self._plan(request, attempt))
                spool = await self._spools.build(plan, request.parent, spec, request.owner)
                await self._restore_base(request, plan.start)
            replayed, contents = await self._replay(request, plan, str(spool))
            at = replayed.at or spec.point.at or base_restore.base_time(plan.start)
            folder = self._volumes.folder(spec.volume_id)
            origin = await self._volumes.run_blocking(
                lambda: base_restore.finish_recovery(folder, replace(replayed, at=at)), spec.project_id
            )
            await self._contents_cache.put(spec.volume_id, contents)
            return origin
        except BaseException:
            await self.drop_pending(spec.volume_id, spec.project_id)
            raise
        finally:
            await self._spools.remove(spec.volume_id, spec.project_id)

    def _plan(self, request: _Request, attempt: int) -> RecoveryPlan[BaseOrTemplate]:
        ancestry = self._lineages.read(request.parent)
        plans = plan_recovery(ancestry.lineages, ancestry.template, request.spec.point)
        if attempt >= len(plans):
            raise EngineError("The branch's history does not go back to that point.", transient=False)
        return plans[attempt]

    async def _restore_base(self, request: _Request, base: BaseOrTemplate) -> None:
        spec = request.spec
        record = VolumeRecord(
            project_id=spec.project_id,
            template=request.template,
            source_volume_id=request.parent,
            is_self_contained=spec.is_snapshot,
            is_pending=True,
        )
        async with self._volumes.create(spec.volume_id, record, request.owner) as new_volume:
            await self._volumes.run_blocking(lambda: base_restore.restore_base(new_volume, base), spec.project_id)

    async def _replay(
        self, request: _Request, plan: RecoveryPlan[BaseOrTemplate], spool: str
    ) -> tuple[Origin, BranchContents]:
        """Replay to the point, or to the end of the WAL if the point is after the last commit."""
        try:
            return await self._run(
                request, recovery.recovery_settings(spool, request.spec.point, timeline=plan.timeline)
            )
        except WalEndedBeforeTarget:
            return await self._run(request, recovery.recovery_settings(spool, HEAD, timeline=plan.timeline))

    async def _run(self, request: _Request, settings: Mapping[str, str]) -> tuple[Origin, BranchContents]:
        async with (
            self._temporary.start_recovery(request.spec, request.install, settings) as sockets,
            session.open_session(sockets) as connection,
        ):
            origin = Origin(
                at=await connection.read_last_replay_timestamp(),
                has_subscriptions=await connection.has_subscriptions(),
            )
            contents = await connection.read_contents()
            extensions = await read_extensions(sockets, request.install.major, timeout=_EXTENSIONS_TIMEOUT)
            folder = self._volumes.folder(request.spec.volume_id)
            await asyncio.to_thread(extensions.write, folder.path)
            return origin, contents

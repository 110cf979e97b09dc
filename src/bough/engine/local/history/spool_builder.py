"""The WAL of a plan, gathered in a spool, whatever the volume that is gone back in does meanwhile."""

import asyncio
from pathlib import Path
from typing import TypeVar

from bough.domain import lsn
from bough.engine.local.computes import process, session, standby_files
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.history.recovery_plan import RecoveryPlan, RecoveryStart, WalRange
from bough.engine.local.history.spool import Spool, WalSource
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal

B = TypeVar("B", bound=RecoveryStart)


class SpoolBuilder:
    def __init__(
        self, spools: Path, volumes: Volumes, archives: WalArchives, running: RunningComputes, locks: NamedLocks
    ) -> None:
        self._spools = spools
        self._volumes = volumes
        self._archives = archives
        self._running = running
        self._locks = locks  # of volumes: one that sleeps must not wake while its WAL is copied

    async def remove_leftovers(self) -> None:
        """No spool is left. Only for a start."""
        await run_shielded(lambda: _empty(self._spools))

    async def build(self, plan: RecoveryPlan[B], parent: VolumeId, spec: BranchSpec, owner: Identity) -> Path:
        """A folder with all that a server of the new volume, which is the owner's, needs to go back in the volume."""
        project = spec.project_id
        spool = Spool(
            self._spools / spec.volume_id,
            owner,
            lambda source, target: self._volumes.driver.clone_file(source, target, owner),
        )
        await self._volumes.run_blocking(lambda: self._fill_before(plan, spool), project)
        await self._fill_last(plan.ranges[-1], parent, spool, project)
        return spool.folder

    async def remove(self, volume: VolumeId, project: ProjectId) -> None:
        """What was gathered for the new volume."""
        await self._volumes.run_removal(lambda: remove_tree(self._spools / volume), project)

    async def remove_archive(self, volume: VolumeId, project: ProjectId) -> None:
        """What a new volume that came to nothing had archived itself."""
        await self._volumes.run_removal(lambda: self._archives.drop(volume), project)

    def _fill_before(self, plan: RecoveryPlan[B], spool: Spool) -> None:
        spool.create()
        for stretch in plan.ranges[:-1]:
            spool.fill(stretch, self._source(stretch.volume))
        spool.add_timeline_histories(plan.timelines, map(self._source, plan.volumes), required=plan.timeline)

    async def _fill_last(self, stretch: WalRange, volume: VolumeId, spool: Spool, project: ProjectId) -> None:
        if stretch.volume != volume or await asyncio.to_thread(self._is_retired, volume):
            await self._fill_to_end(stretch, spool, project)
            return
        async with self._locks.lock(volume):
            sockets = await self._running.await_volume_sockets(volume)
            folder = self._volumes.folder(volume)
            if sockets is None:
                await run_shielded(lambda: process.clean_up_after_crash(folder.data, folder.pg_wal))
            if sockets is None or await asyncio.to_thread(standby_files.has_signal, folder.data):
                await self._fill_to_end(stretch, spool, project)
                return
        async with session.open_session(sockets) as ours:
            end = wal.segment_number_at(lsn.to_int(await ours.write_wal_marker()))
        await self._fill_to_end(stretch, spool, project, end)

    async def _fill_to_end(self, stretch: WalRange, spool: Spool, project: ProjectId, end: int | None = None) -> None:
        source = await asyncio.to_thread(self._source, stretch.volume)
        await self._volumes.run_blocking(lambda: spool.fill_to_end(stretch, source, end), project)

    def _source(self, volume: VolumeId) -> WalSource:
        """Where its WAL is."""
        folder = self._volumes.folder(volume)
        return WalSource(self._archives.folder(volume), None if self._is_retired(volume) else folder.pg_wal)

    def _is_retired(self, volume: VolumeId) -> bool:
        """Whether only its history is left."""
        return self._volumes.folder(volume).read_record() is None


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        remove_tree(path)

"""Builds the spool of a recovery plan while the parent volume may start, stop or write."""

import asyncio
from pathlib import Path

from bough.domain import lsn
from bough.engine.local.computes import process, session, standby_files
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.history.recovery_plan import RecoveryPlan, StartT, WalRange
from bough.engine.local.history.spool import Spool, WalSource
from bough.engine.local.history.wal_archives import WalArchives
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.threads import NamedLocks, run_shielded
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal


class SpoolBuilder:
    def __init__(
        self, spools: Path, volumes: Volumes, archives: WalArchives, running: RunningComputes, locks: NamedLocks
    ) -> None:
        self._spools = spools
        self._volumes = volumes
        self._archives = archives
        self._running = running
        self._locks = locks  # of volumes: a stopped parent must not start while its WAL is copied

    async def remove_leftovers(self) -> None:
        """Remove all spools. Call it only at startup."""
        await run_shielded(lambda: _empty(self._spools))

    async def build(self, plan: RecoveryPlan[StartT], parent: VolumeId, spec: BranchSpec, owner: Identity) -> Path:
        """Return a folder with all WAL of the plan, readable by the owner of the new volume."""
        project = spec.project_id
        spool = Spool(
            self._spools / spec.volume_id,
            owner,
            lambda source, target: self._volumes.driver.clone_file(source, target, owner),
        )
        await self._volumes.run_blocking(lambda: self._fill_before_last(plan, spool), project)
        await self._fill_last(plan.ranges[-1], parent, spool, project)
        return spool.folder

    async def remove(self, volume: VolumeId, project: ProjectId) -> None:
        """Remove the spool of the new volume."""
        await self._volumes.run_removal(lambda: remove_tree(self._spools / volume), project)

    def _fill_before_last(self, plan: RecoveryPlan[StartT], spool: Spool) -> None:
        spool.create()
        for wal_range in plan.ranges[:-1]:
            spool.fill(wal_range, self._source(wal_range.volume))
        spool.add_timeline_histories(plan.timelines, map(self._source, plan.volumes), required=plan.timeline)

    async def _fill_last(self, wal_range: WalRange, parent: VolumeId, spool: Spool, project: ProjectId) -> None:
        if wal_range.volume != parent or not await asyncio.to_thread(self._volumes.has_record, parent):
            await self._fill_to_end(wal_range, spool, project)
            return
        async with self._locks.lock(parent):
            sockets = await self._running.await_volume_sockets(parent)
            folder = self._volumes.folder(parent)
            if sockets is None:
                await run_shielded(lambda: process.clean_up_after_crash(folder.data, folder.pg_wal))
            if sockets is None or await asyncio.to_thread(standby_files.has_signal, folder.data):
                await self._fill_to_end(wal_range, spool, project)
                return
        async with session.open_session(sockets) as connection:
            end = wal.segment_number_at(lsn.to_int(await connection.write_wal_marker()))
        await self._fill_to_end(wal_range, spool, project, end)

    async def _fill_to_end(self, wal_range: WalRange, spool: Spool, project: ProjectId, end: int | None = None) -> None:
        source = await asyncio.to_thread(self._source, wal_range.volume)
        await self._volumes.run_blocking(lambda: spool.fill_to_end(wal_range, source, end), project)

    def _source(self, volume: VolumeId) -> WalSource:
        pg_wal = self._volumes.folder(volume).pg_wal if self._volumes.has_record(volume) else None
        return WalSource(self._volumes.wal_archive_path(volume), pg_wal)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        remove_tree(path)

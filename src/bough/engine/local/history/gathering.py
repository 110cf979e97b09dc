"""The WAL of a plan, gathered in a spool, whatever the volume that is gone back in does meanwhile."""

import asyncio
from pathlib import Path
from typing import TypeVar

from bough.domain import lsn
from bough.engine.local.computes import process, session, standbys
from bough.engine.local.computes.living import Living
from bough.engine.local.history.archives import Archives
from bough.engine.local.history.planning import Beginning, Plan, Stretch
from bough.engine.local.history.spool import Source, Spool
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId
from bough.postgres import wal

B = TypeVar("B", bound=Beginning)


class Gathering:
    def __init__(self, spools: Path, volumes: Volumes, archives: Archives, living: Living, locks: Locks) -> None:
        self._spools = spools
        self._volumes = volumes
        self._archives = archives
        self._living = living
        self._locks = locks  # of volumes: one that sleeps must not wake while its WAL is copied

    async def ensure_tidy(self) -> None:
        """No spool is left. Only for a start."""
        await unbroken(lambda: _empty(self._spools))

    async def gather(self, plan: Plan[B], volume: VolumeId, spec: BranchSpec, owner: Identity) -> Path:
        """A folder with all that a server of the new volume, which is the owner's, needs to go back in the volume."""
        project = spec.project_id
        spool = Spool(
            self._spools / spec.volume_id,
            owner,
            lambda source, target: self._volumes.driver.clone_file(source, target, owner),
        )
        await self._volumes.work(lambda: self._fill_before(plan, spool), project)
        await self._fill_last(plan.stretches[-1], volume, spool, project)
        return spool.folder

    async def forget(self, new: VolumeId, project: ProjectId) -> None:
        """What was gathered for the new volume."""
        await self._volumes.remove(lambda: remove_tree(self._spools / new), project)

    async def forget_archived(self, new: VolumeId, project: ProjectId) -> None:
        """What a new volume that came to nothing had archived itself."""
        await self._volumes.remove(lambda: self._archives.drop(new), project)

    def _fill_before(self, plan: Plan[B], spool: Spool) -> None:
        spool.begin()
        for stretch in plan.stretches[:-1]:
            spool.fill(stretch, self._source(stretch.volume))
        spool.add_histories(plan.timelines, map(self._source, plan.volumes), needed=plan.timeline)

    async def _fill_last(self, stretch: Stretch, volume: VolumeId, spool: Spool, project: ProjectId) -> None:
        if stretch.volume != volume or await asyncio.to_thread(self._is_retired, volume):
            await self._fill_to_the_end(stretch, spool, project)
            return
        async with self._locks.of(volume):
            sockets = await self._living.settled(volume)
            folder = self._volumes.folder(volume)
            if sockets is None:
                await unbroken(lambda: process.clear_away(folder.data, folder.wal))
            if sockets is None or await asyncio.to_thread(standbys.is_marked, folder.data):
                await self._fill_to_the_end(stretch, spool, project)
                return
        async with session.opened(sockets) as ours:
            end = wal.number_at(lsn.number(await ours.mark_now()))
        await self._fill_to_the_end(stretch, spool, project, end)

    async def _fill_to_the_end(
        self, stretch: Stretch, spool: Spool, project: ProjectId, end: int | None = None
    ) -> None:
        source = await asyncio.to_thread(self._source, stretch.volume)
        await self._volumes.work(lambda: spool.fill_to_the_end(stretch, source, end), project)

    def _source(self, volume: VolumeId) -> Source:
        """Where its WAL is."""
        folder = self._volumes.folder(volume)
        return Source(self._archives.folder(volume), None if self._is_retired(volume) else folder.wal)

    def _is_retired(self, volume: VolumeId) -> bool:
        """Whether only its history is left."""
        return self._volumes.folder(volume).read() is None


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        remove_tree(path)

"""The histories of all volumes, put together of the files beside it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from bough.engine.local.branches import Branches
from bough.engine.local.computes.living import Living
from bough.engine.local.computes.private import PrivateComputes
from bough.engine.local.history.ancestry import Lives
from bough.engine.local.history.archives import Archives
from bough.engine.local.history.bases import Bases
from bough.engine.local.history.ends import Ends
from bough.engine.local.history.gathering import Gathering
from bough.engine.local.history.glances import Glances
from bough.engine.local.history.keeping import Keeping
from bough.engine.local.history.recovering import Recovering
from bough.engine.local.history.retiring import Retiring
from bough.engine.local.history.turns import Turns
from bough.engine.local.installs.installs import Install
from bough.engine.local.installs.offer import Offer
from bough.engine.local.owners import Owners
from bough.engine.local.template import Templates
from bough.engine.local.threads import Locks
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import Origin
from bough.engine.spec import BranchSpec
from bough.ids import ProjectId, VolumeId


class Histories:
    def __init__(
        self,
        volumes: Volumes,
        templates: Templates,
        branches: Branches,
        *,
        living: Living,
        private: PrivateComputes,
        owners: Owners,
        locks: Locks,
        offer: Offer,
        spools: Path,
        shortage: Callable[[], str | None],
        base_bytes: int,
    ) -> None:
        self._volumes = volumes
        self._branches = branches
        turns = Turns()
        self.archives = Archives(volumes)
        self.bases = Bases(volumes, branches, living, owners)
        self._lives = lives = Lives(self.archives, self.bases, templates)
        self.gathering = Gathering(spools, volumes, self.archives, living, locks)
        self.ends = Ends(volumes, living)
        self.glances = Glances(self.ends)
        self.recovering = Recovering(
            lives, self.gathering, turns, self.glances, volumes=volumes, private=private, owners=owners
        )
        self.keeping = Keeping(volumes, lives, living, turns, offer, shortage=shortage, base_bytes=base_bytes)
        self.retiring = Retiring(volumes, self.archives)

    async def ensure_tidy(self) -> None:
        await self.gathering.ensure_tidy()

    async def is_retired(self, volume: VolumeId) -> bool:
        """Whether of a volume that was there only the history is left."""
        return await asyncio.to_thread(lambda: self._volumes.folder(volume).read() is None)

    async def first(self, install: Install) -> Origin:
        """Where every branch without a parent begins: it can be gone back to from there on."""
        found = await asyncio.to_thread(self._lives.template, install.id)
        return Origin(lsn=found.lsn if found else None)

    async def make(self, spec: BranchSpec, parent: VolumeId, install: Install) -> Origin:
        """The volume as its parent was at the point. Nothing is replayed when nothing was written after it, as it
        often is.
        """
        if not spec.point.is_head and not await self.is_retired(parent):
            cloned = await self._branches.make_of_ended(spec, parent, install)
            if cloned is not None:
                return cloned
        return await self.recovering.make(spec, parent, install)

    async def drop_pending(self, volume: VolumeId, project: ProjectId) -> None:
        await self.recovering.drop(volume, project)

    async def drop_bases(self, project: ProjectId, volume: VolumeId) -> None:
        """Before the volume itself goes."""
        await self.keeping.pruning.drop_all(project, volume)

    async def drop_archive(self, volume: VolumeId, project: ProjectId) -> None:
        await self._volumes.remove(lambda: self.archives.drop(volume), project)

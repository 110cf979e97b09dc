"""Keeping a volume's history: a base now and then, so that little has to be replayed, and nothing older than wanted.

A volume needs no base when it is made, for it stands on its parent or on the template. It gets one when so much WAL
was written that replaying it would take long, and before what it stands on would have to be kept for it alone.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from bough import clock
from bough.domain import lsn
from bough.engine.local.computes.living import Living
from bough.engine.local.history.ancestry import Lives
from bough.engine.local.history.bases import Base
from bough.engine.local.history.ends import Ends
from bough.engine.local.history.figures import Figures, reached
from bough.engine.local.history.pruning import Pruning
from bough.engine.local.history.turns import Turns
from bough.engine.local.installs.offer import Offer
from bough.engine.local.tenant_files import opened_tenant_folder
from bough.engine.local.threads import Locks, unbroken
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.sizes import Sizes, sizes, sizes_of
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError, Kept
from bough.ids import VolumeId

_NO_HISTORY = timedelta(seconds=5)  # who wants so little wants none
_OWN_BASE_AFTER = timedelta(hours=1)  # of a child that writes; many do not live so long
_TRIES = 3  # of a base, before that is trouble
_SOMETHING = 64 * 1024  # bytes of WAL; to start and stop writes less


class Keeping:
    def __init__(
        self,
        volumes: Volumes,
        lives: Lives,
        living: Living,
        turns: Turns,
        offer: Offer,
        *,
        shortage: Callable[[], str | None],
        base_bytes: int,
    ) -> None:
        self._volumes = volumes
        self._lives = lives
        self._archives = lives.archives
        self._bases = lives.bases
        self._ends = Ends(volumes, living)
        self._offer = offer
        self._shortage = shortage  # of space, in a sentence
        self._base_bytes = base_bytes
        self._figures = Figures(volumes, lives, living)
        self.pruning = Pruning(volumes, self._archives, self._bases, turns)
        self._failed: Counter[VolumeId] = Counter()
        self._locks = Locks()  # of volumes, for their histories: a volume may be opened meanwhile

    async def keep(self, volume: VolumeId, since: datetime, *, bases: bool = True) -> Kept:
        now = clock.now()
        wanted = since if now - since > _NO_HISTORY else None
        async with self._locks.of(volume):
            record = await asyncio.to_thread(self._known, volume)
            is_due = False
            if await unbroken(lambda: self._is_there(volume)) and wanted is not None:
                is_due = await self._is_due(volume, record, wanted, now)
            trouble = await self._base(volume, record) if is_due and bases else None
            await self.pruning.prune(volume, record, wanted)
            kept = await self._figures.of(volume, await asyncio.to_thread(self._known, volume), trouble)
        return replace(kept, base_is_due=is_due and not bases)

    async def begin(self, volume: VolumeId) -> Kept:
        """Its history begins with what it holds now. Nobody serves it."""
        async with self._locks.of(volume):
            record = await asyncio.to_thread(self._known, volume)
            end = await self._ends.of(volume)
            if end is None:
                raise EngineError("The branch's compute runs, or was killed: its history cannot begin now.")
            if not await asyncio.to_thread(self._has_base_at, volume, end):
                if sentence := await asyncio.to_thread(self._shortage):
                    raise EngineError(sentence, transient=False)
                if await self._take(volume, record) is None:
                    raise EngineError("The branch's data cannot be copied now, so its history cannot begin.")
            began = replace(record, begins_itself=True)
            await unbroken(lambda: self._volumes.folder(volume).write(began))
            await self.pruning.prune(volume, began, clock.now())
            return await self._figures.of(volume, began)

    async def _base(self, volume: VolumeId, record: VolumeRecord) -> str | None:
        """What kept one from being taken, in a sentence. What passes is trouble when it does not."""
        if sentence := await asyncio.to_thread(self._shortage):
            return f"No base is taken, so that a restore will take longer. {sentence}"
        try:
            await self._take(volume, record)
        except EngineError as error:
            self._failed[volume] += 1
            if error.transient and self._failed[volume] < _TRIES:
                return None
            return f"No base could be taken: {error.public}"
        self._failed.pop(volume, None)
        return None

    async def _take(self, volume: VolumeId, record: VolumeRecord) -> Base | None:
        return await self._bases.take(volume, record, await self._offer.pinned(record.install))

    async def _is_due(self, volume: VolumeId, record: VolumeRecord, since: datetime, now: datetime) -> bool:
        end = await self._ends.of(volume)
        if end is None:
            return False
        own = await asyncio.to_thread(self._bases.of, volume)
        if own:
            return await self._is_far(volume, record, lsn.number(end) - lsn.number(own[-1].lsn))
        if not await asyncio.to_thread(self._figures.is_grounded, volume):
            return await self._ends.archives(volume)
        life = (await asyncio.to_thread(self._lives.of, volume)).lives[0]
        written = lsn.number(end) - life.forks_at
        if record.parent is None:
            return await self._is_far(volume, record, written)
        began = record.origin.at or now
        if began <= since:
            return True
        is_old = now - began > min(_OWN_BASE_AFTER, (now - since) / 8)
        wrote = written > _SOMETHING and self._volumes.driver.name != "plain"
        return (wrote and is_old) or await self._is_far(volume, record, written)

    async def _is_far(self, volume: VolumeId, record: VolumeRecord, written: int) -> bool:
        """A copy of everything is worth it only after as much WAL."""
        if written < self._base_bytes:
            return False
        if self._volumes.driver.name != "plain":
            return True
        folder = self._volumes.folder(volume)
        return written >= await self._volumes.work(lambda: _data_bytes(folder), record.project_id)

    def _has_base_at(self, volume: VolumeId, end: str) -> bool:
        """Whether it began here already."""
        ends = {end for base in self._bases.of(volume) for end in (base.lsn, reached(base))}
        return self._known(volume).begins_itself and end in ends

    def _known(self, volume: VolumeId) -> VolumeRecord:
        record = self._archives.record(volume)
        if record is None:
            raise EngineError("The branch's volume does not exist.", transient=False)
        if record.pending:
            raise EngineError("The branch's volume is still being recovered to its point.")
        return record

    def _is_there(self, volume: VolumeId) -> bool:
        """Or only its history is left. Of one that is there the place for its WAL is there, too."""
        folder = self._volumes.folder(volume)
        if folder.read() is None:
            return False
        self._archives.ensure(volume, folder.owner)
        return True


def _data_bytes(folder: VolumeFolder) -> int:
    """Without its WAL."""
    told = sizes(folder.data)
    try:
        with opened_tenant_folder(folder.data / "pg_wal") as inside:
            its_wal = sizes_of(inside)
    except OSError:  # its WAL is elsewhere
        its_wal = Sizes(0, 0)
    return told.own + told.shared - its_wal.own - its_wal.shared

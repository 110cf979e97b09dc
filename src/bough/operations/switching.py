"""A branch gets another volume: all that rows say of it changes in one transaction. Before it everything is as it
was, after it everything is new.

What the branch had goes to the branch that preserves it, with its history and the children; where nobody preserves
it, the volume is retired: its history stays, and its data goes.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.domain import lsn as positions
from bough.domain import restoring
from bough.domain.branch import Branch, BranchState, LineageStretch, moved
from bough.domain.history import Past
from bough.engine.port import Contents, Origin
from bough.ids import BranchId, VolumeId
from bough.operations import contents
from bough.operations.context import there
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    branch_id: BranchId
    source_id: BranchId  # whose data it gets; it may be its own
    source_volume_id: VolumeId
    volume_id: VolumeId  # what it gets
    origin: Origin
    begins: str | None  # where the history of that begins
    inside: Contents  # what is in it
    left_at: str | None  # where the WAL of what it had ended; None: nobody knows
    preserved_id: BranchId | None

    @property
    def to_itself(self) -> bool:
        return self.source_id == self.branch_id


async def switch(rows: Rows, before: Branch, wish: Switch) -> None:
    """The branch is given as it was; its computes do not run."""
    now = clock.now()
    pasts = await rows.lineages.past(before.id)
    source = await rows.branches.get(before.project_id, wish.source_id)
    own = contents.as_known(await contents.known(rows, before.id))
    # In this order, because no two branches may have one volume, not even for a moment.
    await rows.branches.save(_renewed(before, source or before, wish, now))
    await _begin(rows, wish, pasts, now)
    if wish.preserved_id is None:
        await rows.lineages.retire(before.volume_id, now)
    else:
        await _preserve(rows, before, wish, pasts, now)
        await contents.become(rows, wish.preserved_id, own)
    await contents.become(rows, before.id, wish.inside)


async def _begin(rows: Rows, wish: Switch, pasts: list[Past], now: datetime) -> None:
    """Its history goes on with the new lineage."""
    lineage = there(await rows.lineages.of_volume(wish.volume_id), "lineage")
    await rows.lineages.begin(wish.volume_id, now, wish.begins)
    if wish.to_itself:
        lived = restoring.gone_back(pasts, wish.source_volume_id, wish.origin.lsn, wish.origin.at)
    else:
        lived = restoring.left(pasts, wish.left_at, now)
    new = LineageStretch(branch_id=wish.branch_id, position=0, lineage_id=lineage.id, from_lsn=wish.begins, from_at=now)
    await rows.lineages.write_past(wish.branch_id, [*lived, new])


async def _preserve(rows: Rows, before: Branch, wish: Switch, pasts: list[Past], now: datetime) -> None:
    """Its volume of passage, which was never made, is no longer needed."""
    assert wish.preserved_id is not None
    preserved = there(await rows.branches.get(before.project_id, wish.preserved_id), "branch")
    parts_from_it = preserved.parent_id == before.id
    at = wish.origin if wish.to_itself else Origin()
    await rows.branches.save(
        replace(
            moved(preserved, BranchState.READY, now),
            volume_id=before.volume_id,
            parent_lsn=at.lsn if parts_from_it else before.parent_lsn,
            parent_timestamp=at.at if parts_from_it else before.parent_timestamp,
            logical_size=before.logical_size,
            wal_position=before.wal_position,
            fullness=before.fullness,
            stored_bytes=before.stored_bytes,
        )
    )
    await rows.lineages.remove_volume(preserved.volume_id)
    await rows.lineages.write_past(preserved.id, [past.stretch for past in pasts])
    await rows.branches.move_children(before.id, preserved.id)


def _renewed(before: Branch, source: Branch, wish: Switch, now: datetime) -> Branch:
    after = replace(
        before,
        volume_id=wish.volume_id,
        logical_size=source.logical_size,
        fullness=source.fullness,
        stored_bytes=source.stored_bytes,
        wal_position=positions.number(wish.begins) if wish.begins else wish.origin.position,
        updated_at=now,
    )
    if wish.to_itself or source.id != before.parent_id:
        return after
    reset = replace(after, parent_lsn=wish.origin.lsn, parent_timestamp=wish.origin.at, last_reset_at=now)
    return restoring.renewed_expiration(reset, now)

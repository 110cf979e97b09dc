"""A branch gets another volume: all that rows say of it changes in one transaction. Before it everything is as it
was, after it everything is new.

What the branch had goes to the branch that preserves it, with its history and the children; where nobody preserves
it, the volume is retired: its history stays, and its data goes.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from bough import clock
from bough.domain import lsn as positions
from bough.domain import restore_rules
from bough.domain.branch import Branch, BranchLineage, BranchState, transition_branch
from bough.domain.history import LineageRange
from bough.engine.port import BranchContents, Origin
from bough.ids import BranchId, VolumeId
from bough.operations import contents_sync as contents
from bough.operations.context import require_found
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSwitch:
    branch_id: BranchId
    source_id: BranchId  # whose data it gets; it may be its own
    source_volume_id: VolumeId
    volume_id: VolumeId  # what it gets
    origin: Origin
    start_lsn: str | None  # where the history of that begins
    contents: BranchContents  # what is in it
    previous_end_lsn: str | None  # where the WAL of what it had ended; None: nobody knows
    preserved_id: BranchId | None

    @property
    def is_own_history(self) -> bool:
        return self.source_id == self.branch_id


async def switch_volume(rows: Rows, branch: Branch, change: VolumeSwitch) -> None:
    """The branch is given as it was; its computes do not run."""
    now = clock.now()
    pasts = await rows.lineages.list_ranges(branch.id)
    source = await rows.branches.get(branch.project_id, change.source_id)
    own = contents.to_contents(await contents.load_contents(rows, branch.id))
    # In this order, because no two branches may have one volume, not even for a moment.
    await rows.branches.save(_updated_branch(branch, source or branch, change, now))
    await _start_lineage(rows, change, pasts, now)
    if change.preserved_id is None:
        await rows.lineages.retire_volume(branch.volume_id, now)
    else:
        await _preserve(rows, branch, change, pasts, now)
        await contents.replace_contents(rows, change.preserved_id, own)
    await contents.replace_contents(rows, branch.id, change.contents)


async def _start_lineage(rows: Rows, wish: VolumeSwitch, pasts: list[LineageRange], now: datetime) -> None:
    """Its history goes on with the new lineage."""
    lineage = require_found(await rows.lineages.get_by_volume(wish.volume_id), "lineage")
    await rows.lineages.set_history_start(wish.volume_id, now, wish.start_lsn)
    if wish.is_own_history:
        lived = restore_rules.truncate_lineages(pasts, wish.source_volume_id, wish.origin.lsn, wish.origin.at)
    else:
        lived = restore_rules.end_last_lineage(pasts, wish.previous_end_lsn, now)
    new = BranchLineage(
        branch_id=wish.branch_id, position=0, lineage_id=lineage.id, from_lsn=wish.start_lsn, from_at=now
    )
    await rows.lineages.replace_stretches(wish.branch_id, [*lived, new])


async def _preserve(rows: Rows, before: Branch, wish: VolumeSwitch, pasts: list[LineageRange], now: datetime) -> None:
    """Its volume of passage, which was never made, is no longer needed."""
    assert wish.preserved_id is not None
    preserved = require_found(await rows.branches.get(before.project_id, wish.preserved_id), "branch")
    parts_from_it = preserved.parent_id == before.id
    at = wish.origin if wish.is_own_history else Origin()
    await rows.branches.save(
        replace(
            transition_branch(preserved, BranchState.READY, now),
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
    await rows.lineages.replace_stretches(preserved.id, [past.branch_lineage for past in pasts])
    await rows.branches.move_children(before.id, preserved.id)


def _updated_branch(before: Branch, source: Branch, wish: VolumeSwitch, now: datetime) -> Branch:
    after = replace(
        before,
        volume_id=wish.volume_id,
        logical_size=source.logical_size,
        fullness=source.fullness,
        stored_bytes=source.stored_bytes,
        wal_position=positions.to_int(wish.start_lsn) if wish.start_lsn else wish.origin.position,
        updated_at=now,
    )
    if wish.is_own_history or source.id != before.parent_id:
        return after
    reset = replace(after, parent_lsn=wish.origin.lsn, parent_timestamp=wish.origin.at, last_reset_at=now)
    return restore_rules.renew_expiration(reset, now)

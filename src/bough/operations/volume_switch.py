"""Gives a branch another volume: all its rows change in one transaction.

The old volume goes to the branch that preserves it, with its history and the children. When no branch preserves it,
the volume is retired: its history stays restorable, and its data is removed.
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
from bough.operations import contents_inspection, contents_sync
from bough.operations.context import require_found
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSwitch:
    branch_id: BranchId
    source_id: BranchId  # the branch that has the data; may be the same branch
    source_volume_id: VolumeId
    volume_id: VolumeId  # the new volume
    origin: Origin
    start_lsn: str | None  # where the history of the new volume starts
    contents: BranchContents  # roles and databases of the new volume
    previous_end_lsn: str | None  # where the WAL of the old volume ends, if known
    preserving_branch_id: BranchId | None

    @property
    def is_own_history(self) -> bool:
        return self.source_id == self.branch_id


async def switch_volume(rows: Rows, branch: Branch, change: VolumeSwitch) -> None:
    """`branch` is its current row. Its computes must be stopped."""
    now = clock.now()
    ranges = await rows.lineages.list_ranges(branch.id)
    source = await rows.branches.get(branch.project_id, change.source_id)
    own = contents_inspection.to_contents(await contents_inspection.load_contents(rows, branch.id))
    # The order matters: at no moment may two branches have the same volume.
    await rows.branches.save(_updated_branch(branch, source or branch, change, now))
    await _start_lineage(rows, change, ranges, now)
    if change.preserving_branch_id is None:
        await rows.lineages.retire_volume(branch.volume_id, now)
    else:
        await _preserve(rows, branch, change, ranges, now)
        await contents_sync.replace_contents(rows, change.preserving_branch_id, own)
    await contents_sync.replace_contents(rows, branch.id, change.contents)


async def _start_lineage(rows: Rows, change: VolumeSwitch, ranges: list[LineageRange], now: datetime) -> None:
    """Continue the history of the branch with the new lineage."""
    lineage = require_found(await rows.lineages.get_by_volume(change.volume_id), "lineage")
    await rows.lineages.set_history_start(change.volume_id, now, change.start_lsn)
    if change.is_own_history:
        previous = restore_rules.truncate_lineages(ranges, change.source_volume_id, change.origin.lsn, change.origin.at)
    else:
        previous = restore_rules.end_last_lineage(ranges, change.previous_end_lsn, now)
    new = BranchLineage(
        branch_id=change.branch_id, position=0, lineage_id=lineage.id, from_lsn=change.start_lsn, from_at=now
    )
    await rows.lineages.replace_branch_lineages(change.branch_id, [*previous, new])


async def _preserve(
    rows: Rows, before: Branch, change: VolumeSwitch, ranges: list[LineageRange], now: datetime
) -> None:
    """Give the old volume, its history and the children to the preserving branch, whose placeholder volume goes."""
    assert change.preserving_branch_id is not None
    preserving = require_found(await rows.branches.get(before.project_id, change.preserving_branch_id), "branch")
    is_child = preserving.parent_id == before.id
    origin = change.origin if change.is_own_history else Origin()
    await rows.branches.save(
        replace(
            transition_branch(preserving, BranchState.READY, now),
            volume_id=before.volume_id,
            parent_lsn=origin.lsn if is_child else before.parent_lsn,
            parent_timestamp=origin.at if is_child else before.parent_timestamp,
            logical_size=before.logical_size,
            wal_position=before.wal_position,
            fullness=before.fullness,
            stored_bytes=before.stored_bytes,
        )
    )
    await rows.lineages.remove_volume(preserving.volume_id)
    await rows.lineages.replace_branch_lineages(preserving.id, [each.branch_lineage for each in ranges])
    await rows.branches.move_children(before.id, preserving.id)


def _updated_branch(before: Branch, source: Branch, change: VolumeSwitch, now: datetime) -> Branch:
    after = replace(
        before,
        volume_id=change.volume_id,
        logical_size=source.logical_size,
        fullness=source.fullness,
        stored_bytes=source.stored_bytes,
        wal_position=positions.to_int(change.start_lsn) if change.start_lsn else change.origin.position,
        updated_at=now,
    )
    if change.is_own_history or source.id != before.parent_id:
        return after
    reset = replace(after, parent_lsn=change.origin.lsn, parent_timestamp=change.origin.at, last_reset_at=now)
    return restore_rules.renew_expiration(reset, now)

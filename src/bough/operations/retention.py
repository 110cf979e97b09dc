"""Keeping the history of one lineage: since when it is wanted, what becomes of it, and what rows say of it.

What open work was told to go back to is left alone until that work is over: it was asked for while it was there.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bough import clock
from bough.domain import retention
from bough.domain.branch import Branch, BranchState, Lineage
from bough.domain.history import LineageRange
from bough.domain.operation import LockLevel, Operation, lock_of
from bough.domain.project import Project
from bough.engine.port import HistoryEngine, HistoryStatus
from bough.ids import LineageId, ProjectId, VolumeId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRetention:
    """What of a lineage is wanted now."""

    lineage: Lineage
    branch: Branch  # one whose history it is
    keep_since: datetime
    has_expired_ranges: bool  # stretches of its holders can no longer be gone back to


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """To the rows, as whoever works has them."""

    read: Callable[[], AbstractAsyncContextManager[Rows]]
    transaction: Callable[[], AbstractAsyncContextManager[Rows]]


async def apply_retention(
    store_access: StoreAccess, engine: HistoryEngine, volume_id: VolumeId, *, takes_base: bool = False
) -> tuple[LineageRetention, HistoryStatus] | None:
    """Its history is as long as it shall be, and rows say how it stands; None: there was nothing to do now.

    With `bases` one is taken, too, when it is due, which may take long.
    """
    async with store_access.read() as rows:
        wish = await find_retention(rows, volume_id)
    if wish is None:
        return None
    kept = await engine.apply_retention(volume_id, wish.keep_since, take_bases=takes_base)
    await _save(store_access, wish, kept)
    return wish, kept


async def find_retention(rows: Rows, volume_id: VolumeId) -> LineageRetention | None:
    """None: nobody wants it, or nobody may touch it now."""
    lineage = await rows.lineages.get_by_volume(volume_id)
    project = await rows.projects.get(lineage.project_id) if lineage else None
    if lineage is None or project is None or project.deleted_at is not None:
        return None
    # Before the moment is taken: whoever asks to go back after this asks for a later moment.
    open_work = await rows.operations.list_open(project.id)
    opens_at = _window_start(project)
    holders = await rows.lineages.list_branches(lineage.id)
    present = [holder for holder in holders if holder.volume_id == volume_id]
    if _is_named(volume_id, open_work) or any(_is_locked(holder, open_work) for holder in present):
        return None
    found: list[tuple[datetime, Branch]] = []
    cuts = False
    for holder in holders:
        pasts = await rows.lineages.list_ranges(holder.id)
        own = [
            each for each in retention.select_retained(pasts, opens_at) if each.lineage_range.lineage.id == lineage.id
        ]
        found += [(each.since, holder) for each in own]
        cuts = cuts or bool(retention.select_expired(pasts, opens_at))
    if not found:
        return None
    since, holder = min(found, key=lambda each: each[0])
    return LineageRetention(lineage=lineage, branch=holder, keep_since=since, has_expired_ranges=cuts)


async def is_retained(rows: Rows, lineage_id: LineageId) -> bool:
    """Whether a branch can still go back to it."""
    for holder in await rows.lineages.list_branches(lineage_id):
        kept, _ = await _split_ranges(rows, holder)
        if any(past.lineage.id == lineage_id for past in kept):
            return True
    return False


async def drop_expired_ranges(rows: Rows, lineage_id: LineageId) -> None:
    """Of the branches that were this, the stretches go that they cannot go back to any more."""
    for holder in await rows.lineages.list_branches(lineage_id):
        _, gone = await _split_ranges(rows, holder)
        for past in gone:
            await rows.histories.delete_stretch(past.branch_lineage)


async def _split_ranges(rows: Rows, branch: Branch) -> tuple[list[LineageRange], list[LineageRange]]:
    """What it can go back to, and what not."""
    project = await rows.projects.get(branch.project_id)
    pasts = await rows.lineages.list_ranges(branch.id)
    gone = retention.select_expired(pasts, _window_start(project)) if project else []
    return pasts[len(gone) :], gone


async def is_named_by_open_operation(rows: Rows, project_id: ProjectId, volume_id: VolumeId) -> bool:
    """Whether open work of the project has the volume among what it was told."""
    return _is_named(volume_id, await rows.operations.list_open(project_id))


def _is_named(volume_id: VolumeId, open_work: Iterable[Operation]) -> bool:
    return any(_mentions(operation.parameters, volume_id) for operation in open_work)


def _is_locked(branch: Branch, open_work: Iterable[Operation]) -> bool:
    """Whether it is being made, removed, put away or given other data."""
    touches = [lock_of(operation) for operation in open_work]
    is_taken = any(
        touch.level is LockLevel.BRANCH and branch.id in (touch.branch_id, touch.also_locked_id) for touch in touches
    )
    return is_taken or branch.state is BranchState.INIT


def _mentions(value: Any, volume_id: VolumeId) -> bool:
    if isinstance(value, Mapping):
        return any(_mentions(each, volume_id) for each in value.values())
    if isinstance(value, list | tuple):
        return any(_mentions(each, volume_id) for each in value)
    return bool(value == volume_id)


def _window_start(project: Project) -> datetime:
    return clock.now() - timedelta(seconds=project.history_retention_seconds)


async def _save(ways: StoreAccess, wish: LineageRetention, kept: HistoryStatus) -> None:
    """Only what changed."""
    async with ways.read() as rows:
        lineage = await rows.lineages.get_by_volume(wish.lineage.volume_id)
    if lineage is None:
        return
    began_at, began_lsn = _history_start(lineage, kept)
    known = (lineage.began_at, lineage.began_lsn, lineage.history_bytes)
    if not wish.has_expired_ranges and (began_at, began_lsn, kept.history_bytes) == known:
        return
    async with ways.transaction() as rows:
        await rows.histories.save_extent(
            lineage.id, began_at=began_at, began_lsn=began_lsn, history_bytes=kept.history_bytes
        )
        if wish.has_expired_ranges:
            await drop_expired_ranges(rows, lineage.id)


def _history_start(lineage: Lineage, kept: HistoryStatus) -> tuple[datetime | None, str | None]:
    """Since when one can go back: never before it could be opened, and never earlier than was told before."""
    if kept.began_at is None:
        return None, None
    if lineage.began_at is not None and lineage.began_at >= kept.began_at:
        return lineage.began_at, lineage.began_lsn or kept.began_lsn
    return max(kept.began_at, lineage.created_at), kept.began_lsn

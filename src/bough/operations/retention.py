"""Retention of the history of one lineage: how much is needed, removing the rest, and recording what is left.

History that the parameters of an open operation name is kept until the operation ends.
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
from bough.domain.locks import LockLevel, LockScope
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.engine.port import HistoryEngine, HistoryStatus
from bough.ids import LineageId, ProjectId, VolumeId
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageRetention:
    """How much of a lineage has to be kept."""

    lineage: Lineage
    branch: Branch  # the branch that needs the oldest part
    keep_since: datetime
    has_expired_ranges: bool  # some branch cannot be restored to a part of its history any more


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """How the caller reads and writes rows: an action writes only under its lease."""

    read: Callable[[], AbstractAsyncContextManager[Rows]]
    transaction: Callable[[], AbstractAsyncContextManager[Rows]]
    lock_of: Callable[[Operation], LockScope]


async def apply_retention(
    store_access: StoreAccess, engine: HistoryEngine, volume_id: VolumeId, *, take_bases: bool = False
) -> tuple[LineageRetention, HistoryStatus] | None:
    """Remove expired history and record what is left; None when there is nothing to do now.

    With `take_bases` it also takes a base when one is due, which may take long.
    """
    async with store_access.read() as rows:
        required = await find_retention(rows, volume_id, store_access.lock_of)
    if required is None:
        return None
    status = await engine.apply_retention(volume_id, required.keep_since, take_bases=take_bases)
    await _save(store_access, required, status)
    return required, status


async def find_retention(
    rows: Rows, volume_id: VolumeId, lock_of: Callable[[Operation], LockScope]
) -> LineageRetention | None:
    """Return None when no branch needs the lineage, or an open operation uses it."""
    lineage = await rows.lineages.get_by_volume(volume_id)
    project = await rows.projects.get(lineage.project_id) if lineage else None
    if lineage is None or project is None or project.deleted_at is not None:
        return None
    # Read before the window is computed: a restore that is requested after this asks for a later time.
    open_operations = await rows.operations.list_open(project.id)
    earliest_at = _window_start(project)
    branches = await rows.lineages.list_branches(lineage.id)
    current = [branch for branch in branches if branch.volume_id == volume_id]
    locks = [lock_of(operation) for operation in open_operations]
    if _is_named(volume_id, open_operations) or any(_is_locked(branch, locks) for branch in current):
        return None
    found: list[tuple[datetime, Branch]] = []
    has_expired = False
    for branch in branches:
        ranges = await rows.lineages.list_ranges(branch.id)
        retained = retention.select_retained(ranges, earliest_at)
        found += [(each.since, branch) for each in retained if each.lineage_range.lineage.id == lineage.id]
        has_expired = has_expired or bool(retention.select_expired(ranges, earliest_at))
    if not found:
        return None
    since, branch = min(found, key=lambda each: each[0])
    return LineageRetention(lineage=lineage, branch=branch, keep_since=since, has_expired_ranges=has_expired)


async def is_retained(rows: Rows, lineage_id: LineageId) -> bool:
    """Return whether some branch can still be restored to it."""
    for branch in await rows.lineages.list_branches(lineage_id):
        retained, _ = await _split_ranges(rows, branch)
        if any(each.lineage.id == lineage_id for each in retained):
            return True
    return False


async def drop_expired_ranges(rows: Rows, lineage_id: LineageId) -> None:
    """Remove the ranges to which the branches of the lineage cannot be restored any more."""
    for branch in await rows.lineages.list_branches(lineage_id):
        _, expired = await _split_ranges(rows, branch)
        for each in expired:
            await rows.histories.delete_branch_lineage(each.branch_lineage)


async def _split_ranges(rows: Rows, branch: Branch) -> tuple[list[LineageRange], list[LineageRange]]:
    """Return the retained and the expired ranges."""
    project = await rows.projects.get(branch.project_id)
    ranges = await rows.lineages.list_ranges(branch.id)
    expired = retention.select_expired(ranges, _window_start(project)) if project else []
    return ranges[len(expired) :], expired


async def is_named_by_open_operation(rows: Rows, project_id: ProjectId, volume_id: VolumeId) -> bool:
    """Return whether the parameters of an open operation name the volume."""
    return _is_named(volume_id, await rows.operations.list_open(project_id))


def _is_named(volume_id: VolumeId, operations: Iterable[Operation]) -> bool:
    return any(_mentions(operation.parameters, volume_id) for operation in operations)


def _is_locked(branch: Branch, locks: Iterable[LockScope]) -> bool:
    """Return whether the branch is being created, deleted, archived or restored."""
    for lock in locks:
        if lock.level is LockLevel.PROJECT:
            return True
        if lock.level is LockLevel.BRANCH and branch.id in (lock.branch_id, lock.also_locked_id):
            return True
    return branch.state is BranchState.INIT


def _mentions(value: Any, volume_id: VolumeId) -> bool:
    """Search the stored parameters, whatever their version, so that no volume in use is removed."""
    if isinstance(value, Mapping):
        return any(_mentions(each, volume_id) for each in value.values())
    if isinstance(value, list | tuple):
        return any(_mentions(each, volume_id) for each in value)
    return bool(value == volume_id)


def _window_start(project: Project) -> datetime:
    return clock.now() - timedelta(seconds=project.history_retention_seconds)


async def _save(store_access: StoreAccess, required: LineageRetention, status: HistoryStatus) -> None:
    """Write only when something changed."""
    async with store_access.read() as rows:
        lineage = await rows.lineages.get_by_volume(required.lineage.volume_id)
    if lineage is None:
        return
    began_at, began_lsn = _history_start(lineage, status)
    stored = (lineage.began_at, lineage.began_lsn, lineage.history_bytes)
    if not required.has_expired_ranges and (began_at, began_lsn, status.history_bytes) == stored:
        return
    async with store_access.transaction() as rows:
        await rows.histories.save_history_start_and_size(
            lineage.id, began_at=began_at, began_lsn=began_lsn, history_bytes=status.history_bytes
        )
        if required.has_expired_ranges:
            await drop_expired_ranges(rows, lineage.id)


def _history_start(lineage: Lineage, status: HistoryStatus) -> tuple[datetime | None, str | None]:
    """Return the earliest restorable point: not before the lineage was created, and not before the stored one."""
    if status.began_at is None:
        return None, None
    if lineage.began_at is not None and lineage.began_at >= status.began_at:
        return lineage.began_at, lineage.began_lsn or status.began_lsn
    return max(status.began_at, lineage.created_at), status.began_lsn

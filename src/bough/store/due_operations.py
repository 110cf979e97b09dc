"""Statements that select the next due operation, for the queue."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from bough.domain.operation import Lane
from bough.ids import ProjectId
from bough.store.tables import operations

# Projects that run as many operations of a lane as they may.
SaturatedProjects = Mapping[Lane, Collection[ProjectId]]
NO_SATURATED_PROJECTS: SaturatedProjects = {}

_ANY_CRASHES = 2**31 - 1
_MAX_CLOCK_SKEW = timedelta(minutes=1)  # between control processes that share a store

_before = operations.alias("before")
_BLOCKED = sa.exists().where(_before.c.id == operations.c.after, _before.c.ended_at.is_(None))
_CRASHES_BELOW = operations.c.crashes < sa.bindparam("crashes_below", type_=operations.c.crashes.type)
_now = sa.bindparam("now", type_=operations.c.due_at.type)
# The row was written before the clock was set back, so its times in the future are meaningless.
_FROM_THE_FUTURE = operations.c.updated_at > sa.bindparam("soon", type_=operations.c.updated_at.type)
_due = (
    sa.select(operations)
    .where(
        operations.c.ended_at.is_(None),
        sa.or_(operations.c.due_at <= _now, _FROM_THE_FUTURE),
        sa.or_(operations.c.lease_until.is_(None), operations.c.lease_until < _now, _FROM_THE_FUTURE),
        ~_BLOCKED,
    )
    .order_by(operations.c.is_urgent.desc(), operations.c.due_at, operations.c.created_at)
    .limit(1)
    .with_for_update(skip_locked=True, of=operations)
)
_next_due_time = (
    sa.select(operations.c.due_at)
    .where(operations.c.ended_at.is_(None), operations.c.lease_until.is_(None), ~_BLOCKED)
    .order_by(operations.c.due_at)
    .limit(1)
)


def _by_lane(statement: sa.Select[Any]) -> dict[Lane | None, sa.Select[Any]]:
    """Return the statement for each lane, and for both (None)."""
    urgent, statement = operations.c.is_urgent, statement.where(_CRASHES_BELOW)
    return {None: statement, Lane.URGENT: statement.where(urgent), Lane.REGULAR: statement.where(~urgent)}


_NEXT_DUE = _by_lane(_due)
_NEXT_DUE_TIME = _by_lane(_next_due_time)


def select_next_due(lane: Lane | None, saturated: SaturatedProjects) -> sa.Select[Any]:
    """Select the due operation without a lease that has waited longest; urgent operations come first."""
    return _exclude_projects(_NEXT_DUE[lane], saturated)


def select_next_due_time(lane: Lane | None, saturated: SaturatedProjects) -> sa.Select[Any]:
    """Select when the next operation that is neither leased nor blocked becomes due."""
    return _exclude_projects(_NEXT_DUE_TIME[lane], saturated)


def due_params(now: datetime, crashes_below: int | None) -> dict[str, Any]:
    return {"now": now, "soon": now + _MAX_CLOCK_SKEW, **due_time_params(crashes_below)}


def due_time_params(crashes_below: int | None) -> dict[str, Any]:
    return {"crashes_below": _ANY_CRASHES if crashes_below is None else crashes_below}


def _exclude_projects(statement: sa.Select[Any], saturated: SaturatedProjects) -> sa.Select[Any]:
    for lane, projects in saturated.items():
        if projects:
            is_in_lane = operations.c.is_urgent if lane is Lane.URGENT else ~operations.c.is_urgent
            statement = statement.where(~sa.and_(is_in_lane, operations.c.project_id.in_(projects)))
    return statement

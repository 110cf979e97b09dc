"""Named queries on operations. Their rows are both the queue and the public record."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from bough.domain.operation import STORED_KINDS, Operation, OperationKind, OperationStatus, decode_kind, encode_kind
from bough.ids import EndpointId, OperationId, ProjectId
from bough.store.paging import Page, PagePosition, build_page, page_params, paginate_newest_first
from bough.store.queries import Queries, equals_param, update_by_id
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import endpoints, operations

_ONE = sa.select(operations).where(equals_param(operations.c.id))
_own = sa.select(operations).where(equals_param(operations.c.project_id))
_FIRST_PAGE = paginate_newest_first(_own, operations, is_continuation=False)
_LATER_PAGE = paginate_newest_first(_own, operations, is_continuation=True)
_before = operations.alias("before")
_BLOCKED = sa.exists().where(_before.c.id == operations.c.after, _before.c.ended_at.is_(None))
_open = sa.select(operations).where(operations.c.ended_at.is_(None))
_OPEN_IN_PROJECT = _open.where(equals_param(operations.c.project_id)).order_by(operations.c.created_at, operations.c.id)
_WAITING_FOR = _open.where(equals_param(operations.c.after))
_now = sa.bindparam("now", type_=operations.c.due_at.type)
# The row was written before the clock was set back, so its times in the future are meaningless.
_FROM_THE_FUTURE = operations.c.updated_at > sa.bindparam("soon", type_=operations.c.updated_at.type)
_due = (
    _open.where(
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


_CRASHES_BELOW = operations.c.crashes < sa.bindparam("crashes_below", type_=operations.c.crashes.type)


def _by_lane(statement: sa.Select[Any]) -> dict[bool | None, sa.Select[Any]]:
    """Returns the statement for urgent operations (True), for the others (False) and for all (None)."""
    urgent, statement = operations.c.is_urgent, statement.where(_CRASHES_BELOW)
    return {None: statement, True: statement.where(urgent), False: statement.where(~urgent)}


_NEXT_DUE = _by_lane(_due)
_NEXT_DUE_TIME = _by_lane(_next_due_time)
_LOCK_FENCE = sa.select(operations.c.fence).where(equals_param(operations.c.id)).with_for_update()
_SAVE_LEASED = update_by_id(operations).where(equals_param(operations.c.fence, "leased_fence"))
_SAVE_OPEN = _SAVE_LEASED.where(operations.c.ended_at.is_(None))

_MANY_CRASHES = operations.c.crashes >= sa.bindparam("crashes_from", type_=operations.c.crashes.type)
_SET_ASIDE = _open.where(_MANY_CRASHES).order_by(operations.c.created_at, operations.c.id)
_COUNT_SET_ASIDE = (
    sa.select(sa.func.count()).select_from(operations).where(operations.c.ended_at.is_(None), _MANY_CRASHES)
)
_ANY_CRASHES = 2**31 - 1
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_CLOCK_SKEW = timedelta(minutes=1)  # between control processes that share a store


# Projects that run as many operations as they may, separately for urgent operations (True) and others (False).
SaturatedProjects = Mapping[bool, Collection[ProjectId]]
NO_SATURATED_PROJECTS: SaturatedProjects = {}


def _exclude_projects(statement: sa.Select[Any], saturated: SaturatedProjects) -> sa.Select[Any]:
    for urgent, projects in saturated.items():
        if projects:
            is_in_lane = operations.c.is_urgent if urgent else ~operations.c.is_urgent
            statement = statement.where(~sa.and_(is_in_lane, operations.c.project_id.in_(projects)))
    return statement


class LostLease(Exception):
    """Another runner has leased the operation, or it has ended. The caller must not write its results."""


def _to_operation(row: Mapping[str, Any]) -> Operation:
    kind, parameters = decode_kind(row["action"], row["parameters"])
    return from_row(Operation, {**row, "kind": kind, "parameters": parameters})


def _to_columns(operation: Operation) -> dict[str, Any]:
    columns = to_columns(operation)
    columns["action"], columns["parameters"] = encode_kind(columns.pop("kind"), operation.parameters)
    return columns


class Operations(Queries):
    async def add(self, operation: Operation) -> None:
        await self._insert(operations, _to_columns(operation))

    async def get(self, operation_id: OperationId) -> Operation | None:
        row = await self._one(_ONE, id=operation_id)
        return _to_operation(row) if row else None

    async def list_open(self, project_id: ProjectId) -> list[Operation]:
        rows = await self._all(_OPEN_IN_PROJECT, project_id=project_id)
        return [_to_operation(row) for row in rows]

    async def list_busy_endpoint_ids(self) -> frozenset[EndpointId]:
        """Returns the endpoints that an open operation affects, directly or through their branch."""
        rows = await self._all(
            sa.select(endpoints.c.id)
            .join(
                operations,
                sa.or_(
                    operations.c.endpoint_id == endpoints.c.id,
                    sa.and_(operations.c.endpoint_id.is_(None), operations.c.branch_id == endpoints.c.branch_id),
                ),
            )
            .where(operations.c.ended_at.is_(None))
        )
        return frozenset(EndpointId(row["id"]) for row in rows)

    async def count_open_by_kind(self, kind: OperationKind) -> int:
        """Counts in all projects. The kind must not share its stored action with another."""
        open_ones = sa.select(sa.func.count()).select_from(operations).where(operations.c.ended_at.is_(None))
        return int(await self._value(open_ones.where(operations.c.action == STORED_KINDS[kind].action)))

    async def list_waiting_for(self, operation_id: OperationId) -> list[Operation]:
        rows = await self._all(_WAITING_FOR, after=operation_id)
        return [_to_operation(row) for row in rows]

    async def page(self, project_id: ProjectId, *, limit: int, after: PagePosition | None) -> Page[Operation]:
        statement = _LATER_PAGE if after else _FIRST_PAGE
        rows = await self._all(statement, project_id=project_id, **page_params(limit, after))
        return build_page([_to_operation(row) for row in rows], limit)

    async def get_next_due(
        self,
        now: datetime,
        *,
        urgent: bool | None = None,
        excluding: SaturatedProjects = NO_SATURATED_PROJECTS,
        crashes_below: int | None = None,
    ) -> Operation | None:
        """Returns the due operation without a lease that has waited longest; urgent operations come first.

        `urgent` limits the search to urgent operations or to the others, `excluding` omits projects, and
        `crashes_below` omits operations with that many crashes or more.
        """
        below = _ANY_CRASHES if crashes_below is None else crashes_below
        statement = _exclude_projects(_NEXT_DUE[urgent], excluding)
        row = await self._one(statement, now=now, soon=now + _MAX_CLOCK_SKEW, crashes_below=below)
        return _to_operation(row) if row else None

    async def get_next_due_time(
        self,
        *,
        urgent: bool | None = None,
        excluding: SaturatedProjects = NO_SATURATED_PROJECTS,
        crashes_below: int | None = None,
    ) -> datetime | None:
        """Returns when the next operation that is neither leased nor blocked becomes due."""
        below = _ANY_CRASHES if crashes_below is None else crashes_below
        statement = _exclude_projects(_NEXT_DUE_TIME[urgent], excluding)
        due_time: datetime | None = await self._value(statement, crashes_below=below)
        return due_time

    async def lease(self, operation: Operation, until: datetime, now: datetime) -> Operation:
        """Leases the operation and increases its fence, so that an earlier lease holder can no longer write."""
        was_scheduled = operation.status is OperationStatus.SCHEDULING
        leased = replace(
            operation,
            fence=operation.fence + 1,
            lease_until=until,
            status=OperationStatus.RUNNING if was_scheduled else operation.status,
            started_at=operation.started_at or now,
            updated_at=now,
        )
        await self._save(operations, _to_columns(leased))
        return leased

    async def expire_leases(self) -> int:
        """Expires every lease and returns their number. Only for a runner that knows that no other one is alive."""
        return await self._run(
            sa.update(operations)
            .where(operations.c.ended_at.is_(None), operations.c.lease_until.is_not(None))
            .values(lease_until=_LONG_AGO)
        )

    async def release_lease(self, operation_id: OperationId, fence: int) -> None:
        """Ends a lease if it is still valid. The next runner repeats the step."""
        await self._run(_SAVE_LEASED, saved_id=operation_id, leased_fence=fence, lease_until=None)

    async def list_set_aside(self, crashes: int) -> list[Operation]:
        """Returns open operations with at least this many crashes."""
        rows = await self._all(_SET_ASIDE, crashes_from=crashes)
        return [_to_operation(row) for row in rows]

    async def count_set_aside(self, crashes: int) -> int:
        return int(await self._value(_COUNT_SET_ASIDE, crashes_from=crashes))

    async def mark_urgent(self, operation_id: OperationId) -> None:
        """Called when a client starts to wait for the operation."""
        await self._run(update_by_id(operations), saved_id=operation_id, is_urgent=True)

    async def renew_lease(self, operation_id: OperationId, fence: int, until: datetime) -> bool:
        return await self._run(_SAVE_LEASED, saved_id=operation_id, leased_fence=fence, lease_until=until) == 1

    async def save(self, operation: Operation) -> None:
        """Writes under the lease with which this copy was read. Raises LostLease if the lease is no longer valid."""
        columns = _to_columns(operation)
        if await self._run(_SAVE_OPEN, saved_id=columns.pop("id"), leased_fence=operation.fence, **columns) != 1:
            raise LostLease(operation.id)

    async def check_lease(self, operation_id: OperationId, fence: int) -> None:
        """Raises LostLease unless the lease is valid. Call it in the transaction that writes the results of a step."""
        if await self._value(_LOCK_FENCE, id=operation_id) != fence:
            raise LostLease(operation_id)

    async def count_open(self) -> int:
        return int(
            await self._value(sa.select(sa.func.count()).select_from(operations).where(operations.c.ended_at.is_(None)))
        )

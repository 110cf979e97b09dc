"""Named queries on operations: their rows are the queue and the public record."""

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
_OPEN_OF = _open.where(equals_param(operations.c.project_id)).order_by(operations.c.created_at, operations.c.id)
_WAITING_FOR = _open.where(equals_param(operations.c.after))
_now = sa.bindparam("now", type_=operations.c.due_at.type)
# Written when the clock was ahead, and it was set back: what the row says about the future means nothing.
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
_next_moment = (
    sa.select(operations.c.due_at)
    .where(operations.c.ended_at.is_(None), operations.c.lease_until.is_(None), ~_BLOCKED)
    .order_by(operations.c.due_at)
    .limit(1)
)


_CRASHES_BELOW = operations.c.crashes < sa.bindparam("crashes_below", type_=operations.c.crashes.type)


def _by_lane(statement: sa.Select[Any]) -> dict[bool | None, sa.Select[Any]]:
    """For urgent operations, for the others, and for all."""
    urgent, statement = operations.c.is_urgent, statement.where(_CRASHES_BELOW)
    return {None: statement, True: statement.where(urgent), False: statement.where(~urgent)}


_NEXT_DUE = _by_lane(_due)
_NEXT_MOMENT = _by_lane(_next_moment)
_LOCK_FENCE = sa.select(operations.c.fence).where(equals_param(operations.c.id)).with_for_update()
_SAVE_HELD = update_by_id(operations).where(equals_param(operations.c.fence, "held_fence"))
_SAVE_OPEN = _SAVE_HELD.where(operations.c.ended_at.is_(None))

_MANY_CRASHES = operations.c.crashes >= sa.bindparam("crashes_from", type_=operations.c.crashes.type)
_SET_ASIDE = _open.where(_MANY_CRASHES).order_by(operations.c.created_at, operations.c.id)
_COUNT_SET_ASIDE = (
    sa.select(sa.func.count()).select_from(operations).where(operations.c.ended_at.is_(None), _MANY_CRASHES)
)
_ANY_CRASHES = 2**31 - 1
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCKS_DIFFER = timedelta(minutes=1)  # of controls that share a store, at most


SaturatedProjects = Mapping[
    bool, Collection[ProjectId]
]  # projects that have enough under way, of urgent operations and of others
NO_SATURATED_PROJECTS: SaturatedProjects = {}


def _without(statement: sa.Select[Any], full: SaturatedProjects) -> sa.Select[Any]:
    for urgent, projects in full.items():
        if projects:
            is_in_lane = operations.c.is_urgent if urgent else ~operations.c.is_urgent
            statement = statement.where(~sa.and_(is_in_lane, operations.c.project_id.in_(projects)))
    return statement


class LostLease(Exception):
    """Another runner holds the operation now, or it has ended; what this one did must not be written."""


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
        rows = await self._all(_OPEN_OF, project_id=project_id)
        return [_to_operation(row) for row in rows]

    async def list_busy_endpoint_ids(self) -> frozenset[EndpointId]:
        """Endpoints that an open operation touches, by itself or through their branch."""
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
        """Count in all projects. The kind must not share its stored action with another."""
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
        """The operation that has waited longest, may run now and is held by nobody; urgent ones come first.

        `urgent` leaves out those that are not, or those that are; `without` some projects; `crashes_below` those with
        as many crashes or more.
        """
        below = _ANY_CRASHES if crashes_below is None else crashes_below
        statement = _without(_NEXT_DUE[urgent], excluding)
        row = await self._one(statement, now=now, soon=now + _CLOCKS_DIFFER, crashes_below=below)
        return _to_operation(row) if row else None

    async def get_next_due_time(
        self,
        *,
        urgent: bool | None = None,
        excluding: SaturatedProjects = NO_SATURATED_PROJECTS,
        crashes_below: int | None = None,
    ) -> datetime | None:
        """When the next operation that nobody holds and nothing blocks becomes due."""
        below = _ANY_CRASHES if crashes_below is None else crashes_below
        statement = _without(_NEXT_MOMENT[urgent], excluding)
        moment: datetime | None = await self._value(statement, crashes_below=below)
        return moment

    async def lease(self, operation: Operation, until: datetime, now: datetime) -> Operation:
        """Take it: the fence grows, so that whoever held it before can write no more."""
        waited = operation.status is OperationStatus.SCHEDULING
        taken = replace(
            operation,
            fence=operation.fence + 1,
            lease_until=until,
            status=OperationStatus.RUNNING if waited else operation.status,
            started_at=operation.started_at or now,
            updated_at=now,
        )
        await self._save(operations, _to_columns(taken))
        return taken

    async def expire_leases(self) -> int:
        """Every lease lapses now: for a runner that knows it is the only one alive. How many there were."""
        return await self._run(
            sa.update(operations)
            .where(operations.c.ended_at.is_(None), operations.c.lease_until.is_not(None))
            .values(lease_until=_LONG_AGO)
        )

    async def release_lease(self, operation_id: OperationId, fence: int) -> None:
        """Give a lease back, if it is still ours: whoever comes next repeats the step."""
        await self._run(_SAVE_HELD, saved_id=operation_id, held_fence=fence, lease_until=None)

    async def list_set_aside(self, crashes: int) -> list[Operation]:
        """Those that are open and had so many crashes or more."""
        rows = await self._all(_SET_ASIDE, crashes_from=crashes)
        return [_to_operation(row) for row in rows]

    async def count_set_aside(self, crashes: int) -> int:
        return int(await self._value(_COUNT_SET_ASIDE, crashes_from=crashes))

    async def mark_urgent(self, operation_id: OperationId) -> None:
        """Somebody waits for it now."""
        await self._run(update_by_id(operations), saved_id=operation_id, is_urgent=True)

    async def renew_lease(self, operation_id: OperationId, fence: int, until: datetime) -> bool:
        return await self._run(_SAVE_HELD, saved_id=operation_id, held_fence=fence, lease_until=until) == 1

    async def save(self, operation: Operation) -> None:
        """Write under the lease this copy was read with."""
        columns = _to_columns(operation)
        if await self._run(_SAVE_OPEN, saved_id=columns.pop("id"), held_fence=operation.fence, **columns) != 1:
            raise LostLease(operation.id)

    async def check_lease(self, operation_id: OperationId, fence: int) -> None:
        """Fail unless the lease is still ours; taken inside the transaction of a step's writes."""
        if await self._value(_LOCK_FENCE, id=operation_id) != fence:
            raise LostLease(operation_id)

    async def count_open(self) -> int:
        return int(
            await self._value(sa.select(sa.func.count()).select_from(operations).where(operations.c.ended_at.is_(None)))
        )

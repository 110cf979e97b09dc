"""Named queries on operations. Their rows are both the queue and the public record."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.operation import (
    STORED_KINDS,
    Lane,
    Operation,
    OperationKind,
    OperationStatus,
    decode_kind,
    encode_kind,
)
from bough.ids import EndpointId, OperationId, ProjectId
from bough.store.due_operations import (
    NO_SATURATED_PROJECTS,
    SaturatedProjects,
    due_params,
    due_time_params,
    select_next_due,
    select_next_due_time,
)
from bough.store.paging import Page, PagePosition, build_page, page_params, paginate_newest_first
from bough.store.queries import Queries, equals_param, update_by_id
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import endpoints, operations

_ONE = sa.select(operations).where(equals_param(operations.c.id))
_own = sa.select(operations).where(equals_param(operations.c.project_id))
_FIRST_PAGE = paginate_newest_first(_own, operations, is_continuation=False)
_LATER_PAGE = paginate_newest_first(_own, operations, is_continuation=True)
_open = sa.select(operations).where(operations.c.ended_at.is_(None))
_OPEN_IN_PROJECT = _open.where(equals_param(operations.c.project_id)).order_by(operations.c.created_at, operations.c.id)
_OPEN_OF_REQUEST = _open.where(equals_param(operations.c.request_id))
_WAITING_FOR = _open.where(equals_param(operations.c.after))
_LOCK_FENCE = sa.select(operations.c.fence).where(equals_param(operations.c.id)).with_for_update()
_SAVE_LEASED = update_by_id(operations).where(equals_param(operations.c.fence, "leased_fence"))
_SAVE_OPEN = _SAVE_LEASED.where(operations.c.ended_at.is_(None))

_MANY_CRASHES = operations.c.crashes >= sa.bindparam("crashes_from", type_=operations.c.crashes.type)
_SET_ASIDE = _open.where(_MANY_CRASHES).order_by(operations.c.created_at, operations.c.id)
_COUNT_SET_ASIDE = (
    sa.select(sa.func.count()).select_from(operations).where(operations.c.ended_at.is_(None), _MANY_CRASHES)
)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


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

    async def list_open_of_request(self, request_id: str) -> list[Operation]:
        return [_to_operation(row) for row in await self._all(_OPEN_OF_REQUEST, request_id=request_id)]

    async def list_open(self, project_id: ProjectId) -> list[Operation]:
        rows = await self._all(_OPEN_IN_PROJECT, project_id=project_id)
        return [_to_operation(row) for row in rows]

    async def list_busy_endpoint_ids(self) -> frozenset[EndpointId]:
        """Return the endpoints that an open operation affects, directly or through their branch."""
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
        lane: Lane | None = None,
        excluding: SaturatedProjects = NO_SATURATED_PROJECTS,
        crashes_below: int | None = None,
    ) -> Operation | None:
        """Return the due operation without a lease that has waited longest; urgent operations come first.

        `lane` limits the search to one lane, `excluding` omits projects, and
        `crashes_below` omits operations with that many crashes or more.
        """
        row = await self._one(select_next_due(lane, excluding), **due_params(now, crashes_below))
        return _to_operation(row) if row else None

    async def get_next_due_time(
        self,
        *,
        lane: Lane | None = None,
        excluding: SaturatedProjects = NO_SATURATED_PROJECTS,
        crashes_below: int | None = None,
    ) -> datetime | None:
        """Return when the next operation that is neither leased nor blocked becomes due."""
        due_time: datetime | None = await self._value(
            select_next_due_time(lane, excluding), **due_time_params(crashes_below)
        )
        return due_time

    async def lease(self, operation: Operation, until: datetime, now: datetime) -> Operation:
        """Lease the operation and increase its fence, so that an earlier lease holder can no longer write."""
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
        """Expire every lease and return their number. Only for a runner that knows that no other one is alive."""
        return await self._run(
            sa.update(operations)
            .where(operations.c.ended_at.is_(None), operations.c.lease_until.is_not(None))
            .values(lease_until=_LONG_AGO)
        )

    async def release_lease(self, operation_id: OperationId, fence: int) -> None:
        """End a lease if it is still valid. The next runner repeats the step."""
        await self._run(_SAVE_LEASED, saved_id=operation_id, leased_fence=fence, lease_until=None)

    async def list_set_aside(self, crashes: int) -> list[Operation]:
        """Return open operations with at least this many crashes."""
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
        """Write under the lease with which this copy was read. Raises LostLease if the lease is no longer valid."""
        columns = _to_columns(operation)
        if await self._run(_SAVE_OPEN, saved_id=columns.pop("id"), leased_fence=operation.fence, **columns) != 1:
            raise LostLease(operation.id)

    async def check_lease(self, operation_id: OperationId, fence: int) -> None:
        """Raise LostLease unless the lease is valid. Call it in the transaction that writes the results of a step."""
        if await self._value(_LOCK_FENCE, id=operation_id) != fence:
            raise LostLease(operation_id)

    async def count_open(self) -> int:
        return int(
            await self._value(sa.select(sa.func.count()).select_from(operations).where(operations.c.ended_at.is_(None)))
        )

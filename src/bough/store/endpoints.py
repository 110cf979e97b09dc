"""Named queries on endpoints."""

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from bough.domain.endpoint import Endpoint, EndpointState, EndpointType
from bough.domain.operation import OperationAction, OperationStatus
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import endpoints, operations, projects

_FAILED: sa.ColumnClause[str] = sa.literal_column(
    f"'{OperationStatus.FAILED}'"
)  # written out, or the partial index is not used
_present = sa.select(endpoints).where(endpoints.c.deleted_at.is_(None))
_ONE = _present.where(same(endpoints.c.id))
_OF_BRANCH = _present.where(same(endpoints.c.branch_id)).order_by(endpoints.c.created_at, endpoints.c.id)
_later = operations.alias("later")
_STARTED_LATER = sa.exists().where(
    _later.c.project_id == operations.c.project_id,
    _later.c.created_at > operations.c.created_at,
    _later.c.endpoint_id == operations.c.endpoint_id,
    _later.c.action == OperationAction.START_COMPUTE,
)


class Endpoints(Queries):
    async def add(self, endpoint: Endpoint) -> None:
        await self._insert(endpoints, columns_of(endpoint))

    async def save(self, endpoint: Endpoint) -> None:
        await self._save(endpoints, columns_of(endpoint))

    async def get(self, endpoint_id: EndpointId) -> Endpoint | None:
        row = await self._one(_ONE, id=endpoint_id)
        return rebuild(Endpoint, row) if row else None

    async def known(self, among: Collection[EndpointId]) -> set[EndpointId]:
        """Those that have a row, deleted or not."""
        rows = await self._all(sa.select(endpoints.c.id).where(endpoints.c.id.in_(among)))
        return {EndpointId(row["id"]) for row in rows}

    async def of_project(self, project_id: ProjectId) -> list[Endpoint]:
        rows = await self._all(
            sa.select(endpoints)
            .where(endpoints.c.project_id == project_id, endpoints.c.deleted_at.is_(None))
            .order_by(endpoints.c.created_at, endpoints.c.id)
        )
        return [rebuild(Endpoint, row) for row in rows]

    async def of_branch(self, branch_id: BranchId) -> list[Endpoint]:
        rows = await self._all(_OF_BRANCH, branch_id=branch_id)
        return [rebuild(Endpoint, row) for row in rows]

    async def read_write(self, branch_id: BranchId) -> Endpoint | None:
        row = await self._one(
            sa.select(endpoints).where(
                endpoints.c.branch_id == branch_id,
                endpoints.c.type == EndpointType.READ_WRITE,
                endpoints.c.deleted_at.is_(None),
            )
        )
        return rebuild(Endpoint, row) if row else None

    async def active(self) -> list[Endpoint]:
        """Those that shall have a running compute, of projects that are not deleted."""
        rows = await self._all(_live(sa.select(endpoints)).where(endpoints.c.state == EndpointState.ACTIVE))
        return [rebuild(Endpoint, row) for row in rows]

    async def changing(self) -> list[Endpoint]:
        """Those on their way to another state."""
        rows = await self._all(_live(sa.select(endpoints)).where(endpoints.c.pending_state.is_not(None)))
        return [rebuild(Endpoint, row) for row in rows]

    async def failed(self) -> list[Endpoint]:
        """Those that sleep because their last start failed."""
        rows = await self._all(
            _live(sa.select(endpoints))
            .join(operations, operations.c.endpoint_id == endpoints.c.id)
            .where(
                operations.c.status == _FAILED,
                operations.c.action == OperationAction.START_COMPUTE,
                endpoints.c.state != EndpointState.ACTIVE,
                endpoints.c.pending_state.is_(None),
                ~_STARTED_LATER,
            )
        )
        return [rebuild(Endpoint, row) for row in rows]

    async def count_by_state(self) -> dict[EndpointState, int]:
        rows = await self._all(
            _live(sa.select(endpoints.c.state, sa.func.count().label("count")), in_order=False).group_by(
                endpoints.c.state
            )
        )
        return {EndpointState(row["state"]): row["count"] for row in rows}


def _live(statement: sa.Select[Any], *, in_order: bool = True) -> sa.Select[Any]:
    """Endpoints that are not deleted, of projects that are not."""
    found = statement.join(projects, projects.c.id == endpoints.c.project_id).where(
        endpoints.c.deleted_at.is_(None), projects.c.deleted_at.is_(None)
    )
    return found.order_by(endpoints.c.id) if in_order else found

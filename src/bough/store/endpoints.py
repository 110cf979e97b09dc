"""Named queries on endpoints."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.endpoint import Endpoint, EndpointState, EndpointType
from bough.domain.operation import STORED_KINDS, OperationKind, OperationStatus
from bough.domain.project import SUSPEND_DEFAULT
from bough.domain.usage import EndpointUsage
from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import endpoints, operations, projects, usage

_FAILED: sa.ColumnClause[str] = sa.literal_column(f"'{OperationStatus.FAILED}'")  # a literal, to use the partial index
_not_deleted = sa.select(endpoints).where(endpoints.c.deleted_at.is_(None))
_ONE = _not_deleted.where(equals_param(endpoints.c.id))
_IN_BRANCH = _not_deleted.where(equals_param(endpoints.c.branch_id)).order_by(endpoints.c.created_at, endpoints.c.id)
_COUNT_IN_PROJECT = (
    sa.select(sa.func.count())
    .select_from(endpoints)
    .where(equals_param(endpoints.c.project_id), endpoints.c.deleted_at.is_(None))
)
_RECORD_ACTIVITY = sa.update(endpoints).where(equals_param(endpoints.c.id, "own_id"))
_later_start = operations.alias("later")
_STARTED_LATER = sa.exists().where(
    _later_start.c.project_id == operations.c.project_id,
    _later_start.c.created_at > operations.c.created_at,
    _later_start.c.endpoint_id == operations.c.endpoint_id,
    _later_start.c.action == STORED_KINDS[OperationKind.START_COMPUTE].action,
)


class Endpoints(Queries):
    async def add(self, endpoint: Endpoint) -> None:
        """Add the endpoint and its usage row."""
        await self._insert(endpoints, to_columns(endpoint))
        await self._insert(usage, to_columns(EndpointUsage(endpoint_id=endpoint.id, project_id=endpoint.project_id)))

    async def save(self, endpoint: Endpoint) -> None:
        await self._save(endpoints, to_columns(endpoint))

    async def get(self, endpoint_id: EndpointId) -> Endpoint | None:
        row = await self._one(_ONE, id=endpoint_id)
        return from_row(Endpoint, row) if row else None

    async def get_with_deleted(self, endpoint_id: EndpointId) -> Endpoint | None:
        row = await self._one(sa.select(endpoints).where(endpoints.c.id == endpoint_id))
        return from_row(Endpoint, row) if row else None

    async def list_with_deleted(self, branch_id: BranchId) -> list[Endpoint]:
        rows = await self._all(sa.select(endpoints).where(endpoints.c.branch_id == branch_id))
        return [from_row(Endpoint, row) for row in rows]

    async def get_live(self, endpoint_id: EndpointId) -> Endpoint | None:
        """Look up one row by its key; its project is not deleted."""
        row = await self._one(_LIVE_ONE, id=endpoint_id)
        return from_row(Endpoint, row) if row else None

    async def record_activity(self, endpoint_id: EndpointId, now: datetime) -> None:
        """Set the time of the last activity and nothing else."""
        await self._run(_RECORD_ACTIVITY, own_id=endpoint_id, last_active=now)

    async def find_projects(self, endpoint_ids: Collection[EndpointId]) -> dict[EndpointId, ProjectId]:
        rows = await self._all(
            sa.select(endpoints.c.id, endpoints.c.project_id).where(endpoints.c.id.in_(endpoint_ids))
        )
        return {EndpointId(row["id"]): ProjectId(row["project_id"]) for row in rows}

    async def filter_existing(self, endpoint_ids: Collection[EndpointId]) -> set[EndpointId]:
        """Include deleted endpoints."""
        rows = await self._all(sa.select(endpoints.c.id).where(endpoints.c.id.in_(endpoint_ids)))
        return {EndpointId(row["id"]) for row in rows}

    async def list_in_project(self, project_id: ProjectId) -> list[Endpoint]:
        rows = await self._all(
            sa.select(endpoints)
            .where(endpoints.c.project_id == project_id, endpoints.c.deleted_at.is_(None))
            .order_by(endpoints.c.created_at, endpoints.c.id)
        )
        return [from_row(Endpoint, row) for row in rows]

    async def count_in_project(self, project_id: ProjectId) -> int:
        return int(await self._value(_COUNT_IN_PROJECT, project_id=project_id))

    async def list_in_branch(self, branch_id: BranchId) -> list[Endpoint]:
        rows = await self._all(_IN_BRANCH, branch_id=branch_id)
        return [from_row(Endpoint, row) for row in rows]

    async def get_read_write(self, branch_id: BranchId) -> Endpoint | None:
        row = await self._one(
            sa.select(endpoints).where(
                endpoints.c.branch_id == branch_id,
                endpoints.c.type == EndpointType.READ_WRITE,
                endpoints.c.deleted_at.is_(None),
            )
        )
        return from_row(Endpoint, row) if row else None

    async def find_by_volume(self, volume_id: VolumeId) -> Endpoint | None:
        """Return the read replica that uses this copy."""
        mine = (endpoints.c.volume_id == volume_id, endpoints.c.deleted_at.is_(None))
        row = await self._one(sa.select(endpoints).where(*mine))
        return from_row(Endpoint, row) if row else None

    async def list_active(self) -> list[Endpoint]:
        """Return endpoints whose compute should run, of projects that are not deleted."""
        rows = await self._all(_live(sa.select(endpoints)).where(endpoints.c.state == EndpointState.ACTIVE))
        return [from_row(Endpoint, row) for row in rows]

    async def list_active_replicas(self) -> list[Endpoint]:
        """Return read replicas whose compute should run, except those that are being suspended."""
        return [from_row(Endpoint, row) for row in await self._all(_ACTIVE_REPLICAS)]

    async def list_active_ids(self) -> frozenset[EndpointId]:
        return frozenset(EndpointId(row["id"]) for row in await self._all(_ACTIVE_IDS))

    async def get_active_projects(self) -> dict[EndpointId, ProjectId]:
        """Map the endpoints of `list_active_ids` to their projects."""
        rows = await self._all(_ACTIVE_PROJECTS)
        return {EndpointId(row["id"]): ProjectId(row["project_id"]) for row in rows}

    async def list_regions(self) -> list[tuple[EndpointId, str]]:
        """Return all live endpoints with the region of their hosts."""
        return [(EndpointId(row["id"]), row["region_id"]) for row in await self._all(_REGIONS)]

    async def list_idle_since(self, default: datetime, shortest: datetime) -> list[Endpoint]:
        """Return running endpoints that may be suspended.

        `default` is the latest activity for endpoints with the default timeout, `shortest` for those with their own.
        """
        rows = await self._all(_IDLE, default=default, shortest=shortest)
        return [from_row(Endpoint, row) for row in rows]

    async def list_in_transition(self) -> list[Endpoint]:
        """Return endpoints with a pending state."""
        rows = await self._all(_live(sa.select(endpoints)).where(endpoints.c.pending_state.is_not(None)))
        return [from_row(Endpoint, row) for row in rows]

    async def list_failed(self) -> list[Endpoint]:
        """Return idle endpoints whose last start failed."""
        rows = await self._all(
            _live(sa.select(endpoints))
            .join(operations, operations.c.endpoint_id == endpoints.c.id)
            .where(
                operations.c.status == _FAILED,
                operations.c.action == STORED_KINDS[OperationKind.START_COMPUTE].action,
                endpoints.c.state != EndpointState.ACTIVE,
                endpoints.c.pending_state.is_(None),
                ~_STARTED_LATER,
            )
        )
        return [from_row(Endpoint, row) for row in rows]

    async def count_by_state(self) -> dict[EndpointState, int]:
        rows = await self._all(
            _live(sa.select(endpoints.c.state, sa.func.count().label("count")), in_order=False).group_by(
                endpoints.c.state
            )
        )
        return {EndpointState(row["state"]): row["count"] for row in rows}


def _live(statement: sa.Select[Any], *, in_order: bool = True) -> sa.Select[Any]:
    """Limit the statement to endpoints and projects that are not deleted."""
    live = statement.join(projects, projects.c.id == endpoints.c.project_id).where(
        endpoints.c.deleted_at.is_(None), projects.c.deleted_at.is_(None)
    )
    return live.order_by(endpoints.c.id) if in_order else live


def _before(name: str) -> sa.ColumnElement[bool]:
    return endpoints.c.last_active <= sa.bindparam(name, type_=endpoints.c.last_active.type)


_LIVE_ONE = _live(sa.select(endpoints), in_order=False).where(equals_param(endpoints.c.id))
_ACTIVE_IDS = _live(sa.select(endpoints.c.id), in_order=False).where(endpoints.c.state == EndpointState.ACTIVE)
_ACTIVE_PROJECTS = _ACTIVE_IDS.add_columns(endpoints.c.project_id)
_ACTIVE_REPLICAS = _live(sa.select(endpoints)).where(
    endpoints.c.state == EndpointState.ACTIVE,
    endpoints.c.type == EndpointType.READ_ONLY,
    endpoints.c.pending_state.is_(None),
)
_REGIONS = _live(sa.select(endpoints.c.id, projects.c.region_id))
_IDLE = _live(sa.select(endpoints)).where(
    endpoints.c.state == EndpointState.ACTIVE,
    endpoints.c.pending_state.is_(None),
    sa.or_(
        sa.and_(endpoints.c.suspend_timeout_seconds == SUSPEND_DEFAULT, _before("default")),
        sa.and_(endpoints.c.suspend_timeout_seconds > SUSPEND_DEFAULT, _before("shortest")),
    ),
)

"""Named queries on prepared projects: they run and become instant databases when they get an id."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from bough.domain.endpoint import EndpointState
from bough.domain.project import SUSPEND_DEFAULT, SUSPEND_NEVER
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row
from bough.store.tables import branches, endpoints, instant_databases, prepared_databases, projects, roles

_WAITING = (
    sa.select(
        projects.c.id.label("project_id"),
        endpoints.c.branch_id,
        endpoints.c.id.label("endpoint_id"),
        endpoints.c.state,
        sa.func.coalesce(endpoints.c.pending_state, endpoints.c.state).label("target_state"),
    )
    .select_from(prepared_databases)
    .join(projects, projects.c.id == prepared_databases.c.project_id)
    .join(endpoints, endpoints.c.project_id == projects.c.id)
    .where(projects.c.deleted_at.is_(None))
    .order_by(projects.c.created_at, projects.c.id)
)
_DELETE = sa.delete(prepared_databases).where(equals_param(prepared_databases.c.project_id))
_role = sa.and_(
    roles.c.branch_id == endpoints.c.branch_id, roles.c.name == sa.bindparam("role", type_=roles.c.name.type)
)
_NEXT = (
    _WAITING.add_columns(roles.c.sealed_password)
    .join(roles, _role)
    .where(endpoints.c.state == EndpointState.ACTIVE, endpoints.c.pending_state.is_(None))
    .limit(1)
    .with_for_update(skip_locked=True, of=prepared_databases)
)
_now = sa.bindparam("now", type_=projects.c.created_at.type)
_PREVENT_SUSPEND = (
    sa.update(endpoints).where(equals_param(endpoints.c.id, "own_id")).values(suspend_timeout_seconds=SUSPEND_NEVER)
)
_ALLOW_SUSPEND = (
    sa.update(endpoints)
    .where(equals_param(endpoints.c.id, "own_id"))
    .values(suspend_timeout_seconds=SUSPEND_DEFAULT, created_at=_now, last_active=_now)
)
_SET_PROJECT_CREATED = (
    sa.update(projects).where(equals_param(projects.c.id, "own_id")).values(created_at=_now, updated_at=_now)
)
_SET_BRANCH_CREATED = (
    sa.update(branches).where(equals_param(branches.c.id, "own_id")).values(created_at=_now, updated_at=_now)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDatabase:
    project_id: ProjectId
    branch_id: BranchId
    endpoint_id: EndpointId
    state: EndpointState
    target_state: EndpointState  # the pending state, or the state if no change is pending


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPreparedDatabase(PreparedDatabase):
    sealed_password: str | None


class PreparedDatabases(Queries):
    async def list_all(self) -> list[PreparedDatabase]:
        """Return the oldest first, including those whose compute does not run yet."""
        return [from_row(PreparedDatabase, row) for row in await self._all(_WAITING)]

    async def add(self, project_id: ProjectId, endpoint_id: EndpointId) -> None:
        """Disable automatic suspension while the database waits."""
        await self._insert(prepared_databases, {"project_id": project_id})
        await self._run(_PREVENT_SUSPEND, own_id=endpoint_id)

    async def remove(self, project_id: ProjectId) -> bool:
        """Return False if the project was not prepared."""
        return await self._run(_DELETE, project_id=project_id) == 1

    async def assign_next(self, role: str, now: datetime) -> AssignedPreparedDatabase | None:
        """Take a running database, whose id the caller sets in the same transaction. Its creation time becomes now."""
        row = await self._one(_NEXT, role=role)
        if row is None:
            return None
        assigned = from_row(AssignedPreparedDatabase, row)
        await self.remove(assigned.project_id)
        await self._run(_SET_PROJECT_CREATED, own_id=assigned.project_id, now=now)
        await self._run(_SET_BRANCH_CREATED, own_id=assigned.branch_id, now=now)
        await self._run(_ALLOW_SUSPEND, own_id=assigned.endpoint_id, now=now)
        return assigned

    async def get_last_created_at(self) -> datetime | None:
        """Return the creation time of the newest instant database."""
        created_at: datetime | None = await self._value(sa.select(sa.func.max(instant_databases.c.created_at)))
        return created_at

"""Named queries on what branches store, with the plan and the settings that limit it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bough.domain.allowance import Fullness
from bough.domain.endpoint import EndpointState, EndpointType
from bough.ids import BranchId, EndpointId, OrganizationId, ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row
from bough.store.tables import branches, endpoints, organizations, projects

_TERMS = (projects.c.id.label("project_id"), projects.c.org_id, organizations.c.plan)
_LIVE = projects.c.deleted_at.is_(None)
_STORED = (
    sa.select(
        *_TERMS,
        branches.c.id.label("branch_id"),
        branches.c.fullness,
        branches.c.stored_bytes,
        projects.c.settings,
        sa.case((endpoints.c.state == EndpointState.ACTIVE, endpoints.c.id)).label("writer_id"),
    )
    .select_from(branches)
    .join(projects, projects.c.id == branches.c.project_id)
    .join(organizations, organizations.c.id == projects.c.org_id)
    .outerjoin(
        endpoints,
        sa.and_(
            endpoints.c.branch_id == branches.c.id,
            endpoints.c.type == EndpointType.READ_WRITE,
            endpoints.c.deleted_at.is_(None),
        ),
    )
    .where(_LIVE, branches.c.deleted_at.is_(None))
)
_OF_BRANCH = _STORED.where(equals_param(branches.c.id, "own_id"))
_FULL = _STORED.where(branches.c.fullness != sa.literal_column("'room'"))  # a literal, to use the partial index
_SET_FULLNESS = sa.update(branches).where(equals_param(branches.c.id, "own_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerms:
    """The plan that limits a project."""

    project_id: ProjectId
    org_id: OrganizationId
    plan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchStorage(PlanTerms):
    branch_id: BranchId
    fullness: Fullness
    stored_bytes: int | None
    settings: Mapping[str, Any]  # of the project
    writer_id: EndpointId | None  # the running endpoint that writes to the branch


class Allowances(Queries):
    async def get_by_branch(self, branch_id: BranchId) -> BranchStorage | None:
        row = await self._one(_OF_BRANCH, own_id=branch_id)
        return from_row(BranchStorage, row) if row else None

    async def list_full(self) -> list[BranchStorage]:
        """Return branches that have reached their storage limit."""
        return [from_row(BranchStorage, row) for row in await self._all(_FULL)]

    async def set_fullness(self, branch_id: BranchId, fullness: Fullness, stored: int | None) -> None:
        await self._run(_SET_FULLNESS, own_id=branch_id, fullness=fullness, stored_bytes=stored)

    async def list_projects_of(self, endpoint_ids: Collection[EndpointId]) -> set[ProjectId]:
        """Include the projects of deleted endpoints."""
        rows = await self._all(sa.select(endpoints.c.project_id).where(endpoints.c.id.in_(endpoint_ids)).distinct())
        return {ProjectId(row["project_id"]) for row in rows}

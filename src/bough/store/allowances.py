"""Named queries on what branches store and projects transfer, with the plan that limits it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.allowance import DataTransferPeriod, Fullness
from bough.domain.endpoint import EndpointState, EndpointType
from bough.ids import BranchId, EndpointId, OrganizationId, ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import branches, endpoints, organizations, projects, transfer_periods, usage

_TERMS = (projects.c.id.label("project_id"), projects.c.org_id, organizations.c.plan)
_LIVE = projects.c.deleted_at.is_(None)
_STORED = (
    sa.select(
        *_TERMS,
        branches.c.id.label("branch_id"),
        branches.c.fullness,
        branches.c.stored_bytes,
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
_TRANSFERRED_BYTES = (
    sa.select(sa.func.coalesce(sa.func.sum(usage.c.bytes_out), 0))
    .where(usage.c.project_id == projects.c.id)
    .scalar_subquery()
    .label("transferred_bytes")
)
_TRANSFERRED = (
    sa.select(
        *_TERMS,
        projects.c.created_at,
        _TRANSFERRED_BYTES,
        transfer_periods.c.began_at,
        transfer_periods.c.bytes_before,
        transfer_periods.c.is_over,
    )
    .join(organizations, organizations.c.id == projects.c.org_id)
    .outerjoin(transfer_periods, transfer_periods.c.project_id == projects.c.id)
    .where(projects.c.id.in_(sa.bindparam("among", expanding=True)), _LIVE)
    .order_by(projects.c.id)
)
_IS_OVER = sa.text("transfer_periods.is_over")  # written exactly as in the partial index
_OVER = sa.select(transfer_periods.c.project_id).where(_IS_OVER).order_by(transfer_periods.c.project_id)
_RUNNING_OVER = (
    sa.select(endpoints.c.id)
    .join(transfer_periods, transfer_periods.c.project_id == endpoints.c.project_id)
    .join(projects, projects.c.id == endpoints.c.project_id)
    .where(
        _IS_OVER,
        _LIVE,
        endpoints.c.deleted_at.is_(None),
        endpoints.c.state == EndpointState.ACTIVE,
        endpoints.c.pending_state.is_(None),
    )
    .order_by(endpoints.c.id)
)
_TERMS_WHEN_OVER = (
    sa.select(*_TERMS)
    .select_from(transfer_periods)
    .join(projects, projects.c.id == transfer_periods.c.project_id)
    .join(organizations, organizations.c.id == projects.c.org_id)
    .where(equals_param(transfer_periods.c.project_id, "own_id"), transfer_periods.c.is_over)
)
_SAVE_PERIOD = sa.update(transfer_periods).where(equals_param(transfer_periods.c.project_id, "own_id"))


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
    writer_id: EndpointId | None  # the running endpoint that writes to the branch


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTransferUsage(PlanTerms):
    created_at: datetime
    transferred_bytes: int  # to clients, since the project was created
    period: DataTransferPeriod | None  # None: nothing has been counted yet


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

    async def get_data_transfer(self, project_id: ProjectId) -> DataTransferUsage | None:
        transfers = await self.list_data_transfers([project_id])
        return transfers[0] if transfers else None

    async def list_data_transfers(self, project_ids: Collection[ProjectId]) -> list[DataTransferUsage]:
        """Omit deleted projects."""
        return [_to_data_transfer_usage(row) for row in await self._all(_TRANSFERRED, among=list(project_ids))]

    async def list_over_transfer_limit(self) -> list[ProjectId]:
        """Return projects that have used up their transfer allowance."""
        return [ProjectId(row["project_id"]) for row in await self._all(_OVER)]

    async def get_terms_if_over_limit(self, project_id: ProjectId) -> PlanTerms | None:
        """Return None if the project may transfer more."""
        row = await self._one(_TERMS_WHEN_OVER, own_id=project_id)
        return from_row(PlanTerms, row) if row else None

    async def list_running_over_limit(self) -> list[EndpointId]:
        """Return running endpoints of projects over the transfer limit, except those that are being suspended."""
        return [EndpointId(row["id"]) for row in await self._all(_RUNNING_OVER)]

    async def save_period(self, period: DataTransferPeriod) -> None:
        values = to_columns(period)
        if not await self._run(_SAVE_PERIOD, own_id=period.project_id, **values):
            await self._insert(transfer_periods, values)


def _to_data_transfer_usage(row: Mapping[str, Any]) -> DataTransferUsage:
    period = None if row["began_at"] is None else from_row(DataTransferPeriod, row)
    terms = {
        each.name: row[each.name]
        for each in fields(DataTransferUsage)
        if each.name not in ("period", "transferred_bytes")
    }
    return DataTransferUsage(**terms, transferred_bytes=int(row["transferred_bytes"]), period=period)

"""Named queries on the limits that projects have reached, with what they have used in the present period."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.endpoint import Endpoint, EndpointState
from bough.domain.quota import SETTINGS_KEY, Limit, PeriodUsage, Warnings
from bough.ids import OrganizationId, ProjectId
from bough.store.allowances import PlanTerms
from bough.store.period_usage import month_param, of_project, sent_ever
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row
from bough.store.tables import endpoints, organizations, project_limits, projects, usage

_FLOWS = ("active_seconds", "compute_seconds", "written_bytes", "bytes_out")
_LIVE = projects.c.deleted_at.is_(None)
_HAS_QUOTA = projects.c.settings[SETTINGS_KEY].as_string().is_not(None)
_IS_REACHED = sa.text("project_limits.reached is not null")  # written exactly as in the partial index
_USED = (
    sa.select(
        projects.c.id.label("project_id"),
        projects.c.org_id,
        organizations.c.plan,
        projects.c.name,
        projects.c.settings,
        *map(of_project, _FLOWS),
        sent_ever(),
        project_limits.c.reached,
        project_limits.c.warnings,
        project_limits.c.period_start,
    )
    .join(organizations, organizations.c.id == projects.c.org_id)
    .outerjoin(project_limits, project_limits.c.project_id == projects.c.id)
    .where(projects.c.id.in_(sa.bindparam("among", expanding=True)), _LIVE)
    .order_by(projects.c.id)
)
_REACHED = sa.select(project_limits.c.project_id).where(_IS_REACHED).order_by(project_limits.c.project_id)
_WITH_QUOTA = sa.select(projects.c.id).where(_LIVE, _HAS_QUOTA)
_IN_USE_WITH_QUOTA = (
    sa.select(usage.c.project_id)
    .distinct()
    .join(projects, projects.c.id == usage.c.project_id)
    .where(sa.text("usage.is_uncounted"), _LIVE, _HAS_QUOTA)
)
_ONE = (
    sa.select(projects.c.id.label("project_id"), projects.c.org_id, organizations.c.plan, projects.c.settings)
    .add_columns(project_limits.c.reached)
    .select_from(project_limits)
    .join(projects, projects.c.id == project_limits.c.project_id)
    .join(organizations, organizations.c.id == projects.c.org_id)
    .where(equals_param(project_limits.c.project_id), _IS_REACHED)
)
_RUNNING = (
    sa.select(endpoints)
    .join(project_limits, project_limits.c.project_id == endpoints.c.project_id)
    .join(projects, projects.c.id == endpoints.c.project_id)
    .where(
        _IS_REACHED,
        _LIVE,
        endpoints.c.deleted_at.is_(None),
        endpoints.c.state == EndpointState.ACTIVE,
        endpoints.c.pending_state.is_(None),
    )
    .order_by(endpoints.c.id)
)
_SAVE = sa.update(project_limits).where(equals_param(project_limits.c.project_id, "own_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedLimit(PlanTerms):
    """A limit that a project has reached."""

    settings: Mapping[str, Any]
    reached: Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedProject(PlanTerms):
    """What a project has used in its period, and what is known about its limits."""

    name: str
    settings: Mapping[str, Any]
    usage: PeriodUsage
    sent_bytes: int  # since it was created
    reached: Limit | None = None
    warnings: Warnings
    period_start: datetime | None  # of the warnings


class ProjectLimits(Queries):
    async def list_used(self, project_ids: Collection[ProjectId], now: datetime) -> list[LimitedProject]:
        """Omit deleted projects."""
        rows = await self._all(_USED, among=list(project_ids), **month_param(now))
        return [_to_limited_project(row) for row in rows]

    async def list_reached(self) -> list[ProjectId]:
        return [ProjectId(row["project_id"]) for row in await self._all(_REACHED)]

    async def list_in_use_with_quota(self) -> list[ProjectId]:
        """Return projects with a quota that have used something a moment ago."""
        return [ProjectId(row["project_id"]) for row in await self._all(_IN_USE_WITH_QUOTA)]

    async def list_with_quota(self) -> list[ProjectId]:
        """Read every project: for a task."""
        return [ProjectId(row["id"]) for row in await self._all(_WITH_QUOTA)]

    async def get_reached(self, project_id: ProjectId) -> ReachedLimit | None:
        row = await self._one(_ONE, project_id=project_id)
        return from_row(ReachedLimit, row) if row else None

    async def list_running(self, project_id: ProjectId | None = None) -> Sequence[Endpoint]:
        """Return running endpoints of projects that have reached a limit, unless they are being suspended."""
        statement = _RUNNING if project_id is None else _RUNNING.where(endpoints.c.project_id == project_id)
        return [from_row(Endpoint, row) for row in await self._all(statement)]

    async def save(
        self, project_id: ProjectId, reached: Limit | None, warnings: Warnings, period_start: datetime
    ) -> None:
        values = {
            "reached": None if reached is None else reached.value,
            "warnings": {str(name): percent for name, percent in warnings.items()},
            "period_start": period_start,
        }
        if not await self._run(_SAVE, own_id=project_id, **values):
            await self._insert(project_limits, {"project_id": project_id, **values})


def _to_limited_project(row: Mapping[str, Any]) -> LimitedProject:
    return LimitedProject(
        project_id=ProjectId(row["project_id"]),
        org_id=OrganizationId(row["org_id"]),
        plan=row["plan"],
        name=row["name"],
        settings=row["settings"],
        usage=PeriodUsage(
            active_seconds=row["used_active_seconds"],
            compute_seconds=row["used_compute_seconds"],
            written_bytes=int(row["used_written_bytes"]),
            bytes_out=int(row["used_bytes_out"]),
        ),
        sent_bytes=int(row["sent_bytes"]),
        reached=None if row["reached"] is None else Limit(row["reached"]),
        warnings=row["warnings"] or {},
        period_start=row["period_start"],
    )

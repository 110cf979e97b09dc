"""Named queries that read projects with their usage, one or a page of them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from bough import clock
from bough.domain.project import Project
from bough.ids import OrganizationId, ProjectId
from bough.store.paging import Page, PagePosition, build_page, page_params, paginate_newest_first
from bough.store.period_usage import STORED_HOURS, month_param, of_project, sum_stored_hours
from bough.store.project_storage import STORAGE_BYTES
from bough.store.queries import Queries, like_pattern
from bough.store.row_mapping import from_row
from bough.store.tables import endpoints, maintenance, projects
from bough.store.types import UtcDateTime

ProjectScope = Mapping[OrganizationId, Collection[ProjectId] | None]  # None: all projects of the organization


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectUsage:
    """The usage of a project in the present month, with that of deleted branches and endpoints."""

    active_seconds: int = 0
    cpu_seconds: int = 0
    bytes_out: int = 0  # this field and those below are read for single projects, not in lists
    compute_seconds: int = 0
    written_bytes: int = 0
    stored_byte_hours: int = 0


@dataclass(frozen=True, slots=True)
class ProjectWithUsage:
    """A project with its usage."""

    project: Project
    storage_bytes: int | None
    last_active: datetime | None
    usage: ProjectUsage = field(default_factory=ProjectUsage)
    maintenance_scheduled_for: datetime | None = None  # read for single projects

    @property
    def created_at(self) -> datetime:
        return self.project.created_at

    @property
    def id(self) -> ProjectId:
        return self.project.id


_LAST_ACTIVE = (
    sa.select(sa.func.max(endpoints.c.last_active))
    .where(endpoints.c.project_id == projects.c.id)
    .scalar_subquery()
    .label("last_endpoint_activity")
)


_WITH_USAGE = sa.select(
    projects,
    STORAGE_BYTES.label("storage_bytes"),
    _LAST_ACTIVE,
    of_project("active_seconds"),
    of_project("cpu_seconds"),
)
_SCHEDULED_FOR = (
    sa.select(maintenance.c.scheduled_for)
    .where(maintenance.c.project_id == projects.c.id)
    .scalar_subquery()
    .label("maintenance_scheduled_for")
)
_BY_ID = (projects.c.id == sa.bindparam("id"), projects.c.purged_at.is_(None))
_ONE = _WITH_USAGE.add_columns(
    *map(of_project, ("bytes_out", "compute_seconds", "written_bytes")), _SCHEDULED_FOR
).where(*_BY_ID)
_LIVE = (projects.c.deleted_at.is_(None),)
_RECOVERABLE = (
    projects.c.deleted_at.is_not(None),
    projects.c.recoverable_until > sa.bindparam("now", type_=UtcDateTime()),
    projects.c.purged_at.is_(None),
)


@cache
def _page(*, recoverable: bool, only: bool, search: bool, is_continuation: bool) -> sa.Select[Any]:
    """Select a page of one organization from its index; with `only`, just the listed projects."""
    rows = _WITH_USAGE.where(projects.c.org_id == sa.bindparam("org_id"), *(_RECOVERABLE if recoverable else _LIVE))
    if only:
        rows = rows.where(projects.c.id.in_(sa.bindparam("only", expanding=True)))
    if search:
        rows = rows.where(projects.c.search_key.like(sa.bindparam("search"), escape="\\"))
    return paginate_newest_first(rows, projects, is_continuation=is_continuation)


class ProjectPages(Queries):
    async def get(self, project_id: ProjectId) -> ProjectWithUsage | None:
        now = clock.now()
        row = await self._one(_ONE, id=project_id, **month_param(now))
        if row is None:
            return None
        found = _to_project_with_usage(row)
        stored = sum_stored_hours(await self._all(STORED_HOURS, project_id=project_id), found.project.org_id, now)
        return replace(found, usage=replace(found.usage, stored_byte_hours=round(stored)))

    async def page(
        self,
        scope: ProjectScope,
        *,
        search: str,
        limit: int,
        after: PagePosition | None,
        recoverable_at: datetime | None = None,
    ) -> Page[ProjectWithUsage]:
        """List live projects, or with `recoverable_at` the deleted projects that can be recovered at that time.

        Reads one page of each organization and merges them, so that no organization is sorted as a whole.
        """
        entries: list[ProjectWithUsage] = []
        values = {**page_params(limit, after), "search": like_pattern(search), "now": recoverable_at}
        values |= month_param(clock.now())
        for org_id, only in scope.items():
            if only is None or only:
                statement = _page(
                    recoverable=recoverable_at is not None,
                    only=only is not None,
                    search=bool(search),
                    is_continuation=after is not None,
                )
                rows = await self._all(statement, org_id=org_id, only=list(only or ()), **values)
                entries += [_to_project_with_usage(row) for row in rows]
        entries.sort(key=lambda entry: (entry.created_at, entry.id), reverse=True)
        return build_page(entries, limit)


def _to_project_with_usage(row: Mapping[str, Any]) -> ProjectWithUsage:
    size = row["storage_bytes"]
    usage_totals = ProjectUsage(
        **{each.name: round(row.get(f"used_{each.name}") or 0) for each in fields(ProjectUsage)}
    )
    return ProjectWithUsage(
        from_row(Project, row),
        None if size is None else int(size),
        row["last_endpoint_activity"],
        usage_totals,
        row.get("maintenance_scheduled_for"),
    )

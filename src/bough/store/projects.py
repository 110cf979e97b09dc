"""Named queries on projects."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from bough.domain.project import Project
from bough.ids import OrganizationId, ProjectId
from bough.store.paging import Page, PagePosition, build_page, page_params, paginate_newest_first
from bough.store.project_storage import STORAGE_BYTES
from bough.store.queries import Queries, equals_param, like_pattern
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import (
    api_keys,
    branches,
    endpoints,
    instant_databases,
    lineages,
    operations,
    permissions,
    prepared_databases,
    project_roles,
    projects,
    snapshot_schedules,
    snapshots,
    transfer_periods,
    transfer_requests,
    usage,
    volumes,
)
from bough.store.types import UtcDateTime

ProjectScope = Mapping[OrganizationId, Collection[ProjectId] | None]  # None: all projects of the organization


def _search_key(project: Project) -> str:
    """Case-folds in Python, because SQLite folds only ASCII."""
    return f"{project.name}\n{project.id}".casefold()


def _columns(project: Project) -> dict[str, Any]:
    return {**to_columns(project), "search_key": _search_key(project)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectUsage:
    """The usage of a project's endpoints and branches since their creation, including deleted ones."""

    active_seconds: int = 0
    cpu_seconds: int = 0
    bytes_out: int = 0  # this field and those below are read for single projects, not in lists
    compute_seconds: int = 0
    written_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ProjectWithUsage:
    """A project with its usage."""

    project: Project
    storage_bytes: int | None
    last_active: datetime | None
    usage: ProjectUsage = field(default_factory=ProjectUsage)

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


def _sum_of(name: str) -> sa.Label[Any]:
    total = sa.select(sa.func.sum(usage.c[name])).where(usage.c.project_id == projects.c.id)
    return total.scalar_subquery().label(name)


_WRITTEN = (
    sa.select(sa.func.sum(branches.c.written_bytes))
    .where(branches.c.project_id == projects.c.id)
    .scalar_subquery()
    .label("written_bytes")
)
_WITH_USAGE = sa.select(
    projects, STORAGE_BYTES.label("storage_bytes"), _LAST_ACTIVE, _sum_of("active_seconds"), _sum_of("cpu_seconds")
)
_BY_ID = (projects.c.id == sa.bindparam("id"), projects.c.purged_at.is_(None))
_ONE = sa.select(projects).where(*_BY_ID)
_ONE_WITH_USAGE = _WITH_USAGE.add_columns(_sum_of("bytes_out"), _sum_of("compute_seconds"), _WRITTEN).where(*_BY_ID)
_LOCK = sa.select(projects.c.id).where(equals_param(projects.c.id)).with_for_update()
_LIVE = (projects.c.deleted_at.is_(None),)
_COUNT = sa.select(sa.func.count()).select_from(projects).where(*_LIVE)
_COUNT_IN = _COUNT.where(equals_param(projects.c.org_id))
_RECOVERABLE = (
    projects.c.deleted_at.is_not(None),
    projects.c.recoverable_until > sa.bindparam("now", type_=UtcDateTime()),
    projects.c.purged_at.is_(None),
)


@cache
def _page(*, recoverable: bool, only: bool, search: bool, is_continuation: bool) -> sa.Select[Any]:
    """Selects a page of one organization from its index; with `only`, just the listed projects."""
    rows = _WITH_USAGE.where(projects.c.org_id == sa.bindparam("org_id"), *(_RECOVERABLE if recoverable else _LIVE))
    if only:
        rows = rows.where(projects.c.id.in_(sa.bindparam("only", expanding=True)))
    if search:
        rows = rows.where(projects.c.search_key.like(sa.bindparam("search"), escape="\\"))
    return paginate_newest_first(rows, projects, is_continuation=is_continuation)


def _to_project_with_usage(row: Mapping[str, Any]) -> ProjectWithUsage:
    size = row["storage_bytes"]
    usage_totals = ProjectUsage(**{each.name: int(row.get(each.name) or 0) for each in fields(ProjectUsage)})
    return ProjectWithUsage(
        from_row(Project, row), None if size is None else int(size), row["last_endpoint_activity"], usage_totals
    )


class Projects(Queries):
    async def add(self, project: Project) -> None:
        await self._insert(projects, _columns(project))

    async def save(self, project: Project) -> None:
        await self._save(projects, _columns(project))

    async def get(self, project_id: ProjectId) -> Project | None:
        """Includes deleted projects, but not purged ones."""
        row = await self._one(_ONE, id=project_id)
        return from_row(Project, row) if row else None

    async def get_with_usage(self, project_id: ProjectId) -> ProjectWithUsage | None:
        row = await self._one(_ONE_WITH_USAGE, id=project_id)
        return _to_project_with_usage(row) if row else None

    async def lock(self, project_id: ProjectId) -> None:
        """Serializes decisions about a project. SQLite has only one writer, so it needs no lock."""
        await self._value(_LOCK, id=project_id)

    async def page(
        self,
        scope: ProjectScope,
        *,
        search: str,
        limit: int,
        after: PagePosition | None,
        recoverable_at: datetime | None = None,
    ) -> Page[ProjectWithUsage]:
        """Lists live projects, or with `recoverable_at` the deleted projects that can be recovered at that time.

        Reads one page of each organization and merges them, so that no organization is sorted as a whole.
        """
        entries: list[ProjectWithUsage] = []
        values = {**page_params(limit, after), "search": like_pattern(search), "now": recoverable_at}
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

    async def group_by_organization(self, project_ids: Iterable[ProjectId]) -> dict[OrganizationId, list[ProjectId]]:
        """Maps organizations to their live projects among `project_ids`."""
        wanted = sa.select(projects.c.org_id, projects.c.id).where(projects.c.id.in_(list(project_ids)), *_LIVE)
        entries: dict[OrganizationId, list[ProjectId]] = {}
        for row in await self._all(wanted):
            entries.setdefault(OrganizationId(row["org_id"]), []).append(ProjectId(row["id"]))
        return entries

    async def list_by_ids(self, project_ids: Collection[ProjectId]) -> list[Project]:
        """Omits deleted projects."""
        rows = await self._all(sa.select(projects).where(projects.c.id.in_(project_ids), *_LIVE))
        return [from_row(Project, row) for row in rows]

    async def max_branch_count(self, project_ids: Collection[ProjectId]) -> int:
        """Returns the number of branches in the project that has most of them."""
        counted = sa.select(sa.func.count().label("many")).select_from(branches)
        theirs = counted.where(branches.c.project_id.in_(project_ids), branches.c.deleted_at.is_(None))
        each = theirs.group_by(branches.c.project_id).subquery()
        return int(await self._value(sa.select(sa.func.max(each.c.many))) or 0)

    async def set_organization(self, project_ids: Collection[ProjectId], org_id: OrganizationId, now: datetime) -> None:
        theirs = projects.c.id.in_(project_ids)
        await self._run(sa.update(projects).where(theirs).values(org_id=org_id, updated_at=now))

    async def count_in_organization(self, org_id: OrganizationId) -> int:
        return int(await self._value(_COUNT_IN, org_id=org_id))

    async def count_in_organizations(self, org_ids: Collection[OrganizationId]) -> int:
        return int(await self._value(_COUNT.where(projects.c.org_id.in_(org_ids))))

    async def count(self) -> int:
        return int(await self._value(_COUNT))

    async def list_past_recovery(self, now: datetime, limit: int) -> list[Project]:
        rows = await self._all(
            sa.select(projects)
            .where(
                projects.c.deleted_at.is_not(None),
                projects.c.purged_at.is_(None),
                projects.c.recoverable_until <= now,
            )
            .order_by(projects.c.recoverable_until)
            .limit(limit)
        )
        return [from_row(Project, row) for row in rows]

    async def list_purged(self, org_id: OrganizationId, limit: int) -> list[ProjectId]:
        """Returns purged projects, of which only the id and the operations are left."""
        wanted = sa.select(projects.c.id).where(projects.c.org_id == org_id, projects.c.purged_at.is_not(None))
        return [ProjectId(row["id"]) for row in await self._all(wanted.limit(limit))]

    async def delete(self, project_id: ProjectId) -> None:
        """Deletes the last rows of a purged project, so that its id can be used again."""
        await self._run(sa.delete(operations).where(operations.c.project_id == project_id))
        await self._run(sa.delete(projects).where(projects.c.id == project_id))

    async def purge(self, project_id: ProjectId, now: datetime) -> None:
        """Deletes the project's keys, grants and volumes. The row stays, so that its id is not used again."""
        things = (api_keys, permissions, project_roles, transfer_requests, instant_databases, transfer_periods)
        data = (snapshot_schedules, snapshots, lineages, volumes)
        for table in (*things, prepared_databases, *data):
            await self._run(sa.delete(table).where(table.c.project_id == project_id))
        await self._run(sa.update(projects).where(projects.c.id == project_id).values(purged_at=now))

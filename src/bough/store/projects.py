"""Named queries on projects."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.project import Project
from bough.ids import OrganizationId, ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import (
    api_keys,
    branches,
    instant_databases,
    lineages,
    maintenance,
    operations,
    permissions,
    prepared_databases,
    project_limits,
    project_roles,
    projects,
    snapshot_schedules,
    snapshots,
    transfer_requests,
    volumes,
)


def _search_key(project: Project) -> str:
    """Case-folds in Python, because SQLite folds only ASCII."""
    return f"{project.name}\n{project.id}".casefold()


def _columns(project: Project) -> dict[str, Any]:
    return {**to_columns(project), "search_key": _search_key(project)}


_ONE = sa.select(projects).where(projects.c.id == sa.bindparam("id"), projects.c.purged_at.is_(None))
_LOCK = sa.select(projects.c.id).where(equals_param(projects.c.id)).with_for_update()
_LIVE = (projects.c.deleted_at.is_(None),)
_COUNT = sa.select(sa.func.count()).select_from(projects).where(*_LIVE)
_COUNT_IN = _COUNT.where(equals_param(projects.c.org_id))


class Projects(Queries):
    async def add(self, project: Project) -> None:
        await self._insert(projects, _columns(project))

    async def save(self, project: Project) -> None:
        await self._save(projects, _columns(project))

    async def get(self, project_id: ProjectId) -> Project | None:
        """Include deleted projects, but not purged ones."""
        row = await self._one(_ONE, id=project_id)
        return from_row(Project, row) if row else None

    async def lock(self, project_id: ProjectId) -> None:
        """Serialize decisions about a project. SQLite has only one writer, so it needs no lock."""
        await self._value(_LOCK, id=project_id)

    async def group_by_organization(self, project_ids: Iterable[ProjectId]) -> dict[OrganizationId, list[ProjectId]]:
        """Map organizations to their live projects among `project_ids`."""
        wanted = sa.select(projects.c.org_id, projects.c.id).where(projects.c.id.in_(list(project_ids)), *_LIVE)
        entries: dict[OrganizationId, list[ProjectId]] = {}
        for row in await self._all(wanted):
            entries.setdefault(OrganizationId(row["org_id"]), []).append(ProjectId(row["id"]))
        return entries

    async def list_by_ids(self, project_ids: Collection[ProjectId]) -> list[Project]:
        """Omit deleted projects."""
        rows = await self._all(sa.select(projects).where(projects.c.id.in_(project_ids), *_LIVE))
        return [from_row(Project, row) for row in rows]

    async def max_branch_count(self, project_ids: Collection[ProjectId]) -> int:
        """Return the number of branches in the project that has most of them."""
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

    async def count_by_install(self) -> dict[str, int]:
        """Return the number of projects of each pin, with deleted projects that can be recovered."""
        counted = sa.select(projects.c.install, sa.func.count().label("number")).where(projects.c.purged_at.is_(None))
        return {row["install"]: row["number"] for row in await self._all(counted.group_by(projects.c.install))}

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
        """Return purged projects, of which only the id and the operations are left."""
        wanted = sa.select(projects.c.id).where(projects.c.org_id == org_id, projects.c.purged_at.is_not(None))
        return [ProjectId(row["id"]) for row in await self._all(wanted.limit(limit))]

    async def delete(self, project_id: ProjectId) -> None:
        """Delete the last rows of a purged project, so that its id can be used again."""
        await self._run(sa.delete(operations).where(operations.c.project_id == project_id))
        await self._run(sa.delete(projects).where(projects.c.id == project_id))

    async def purge(self, project_id: ProjectId, now: datetime) -> None:
        """Delete the project's keys, grants and volumes. The row stays, so that its id is not used again."""
        things = (api_keys, permissions, project_roles, transfer_requests, instant_databases, project_limits)
        data = (snapshot_schedules, snapshots, lineages, volumes, maintenance)
        for table in (*things, prepared_databases, *data):
            await self._run(sa.delete(table).where(table.c.project_id == project_id))
        await self._run(sa.update(projects).where(projects.c.id == project_id).values(purged_at=now))

"""Named queries that read the consumption history of an organization, one page at a time."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.consumption import Granularity
from bough.domain.consumption_metrics import StoredBucket
from bough.domain.consumption_periods import ProjectTerm
from bough.ids import BranchId, OrganizationId, ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row
from bough.store.tables import branches, consumption, project_terms, projects

_OF_ORGANIZATION = projects.c.id.in_(
    sa.union(
        sa.select(project_terms.c.project_id).where(equals_param(project_terms.c.org_id)),
        sa.select(projects.c.id).where(equals_param(projects.c.org_id), projects.c.deleted_at.is_(None)),
    )
)
_TERMS = (
    sa.select(project_terms)
    .where(project_terms.c.project_id.in_(sa.bindparam("projects", expanding=True)))
    .order_by(project_terms.c.project_id, project_terms.c.since)
)


# By project and branch, and by the microseconds at which the term began.
Buckets = Mapping[tuple[str, str], Mapping[int, Sequence[StoredBucket]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The projects and the time that are asked for."""

    org_id: OrganizationId
    start: datetime
    only: Collection[ProjectId] | None = None  # None: all projects
    readable: Collection[ProjectId] | None = None  # those that the caller may read; None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedProject:
    id: ProjectId
    created_at: datetime
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedBranch:
    id: BranchId
    project_id: ProjectId
    created_at: datetime
    deleted_at: datetime | None


class ConsumptionReads(Queries):
    async def list_projects(
        self, wanted: Range, limit: int | None = None, after: ProjectId | None = None
    ) -> list[CountedProject]:
        """Return the projects that the organization had in the range, the newest first, after one of them."""
        statement = sa.select(projects.c.id, projects.c.created_at, projects.c.deleted_at).where(*_conditions(wanted))
        if after is not None:
            place = sa.select(projects.c.created_at, projects.c.id).where(projects.c.id == after)
            statement = statement.where(sa.tuple_(projects.c.created_at, projects.c.id) < place.scalar_subquery())
        ordered = statement.order_by(projects.c.created_at.desc(), projects.c.id.desc()).limit(limit)
        return [from_row(CountedProject, row) for row in await self._all(ordered, org_id=wanted.org_id)]

    async def list_branches(
        self, wanted: Range, only: Collection[BranchId] | None, limit: int, after: BranchId | None
    ) -> list[CountedBranch]:
        """Return the branches of these projects in the order of project and branch ids."""
        deleted_at = sa.func.coalesce(branches.c.deleted_at, projects.c.deleted_at).label("deleted_at")
        statement = (
            sa.select(branches.c.id, branches.c.project_id, branches.c.created_at, deleted_at)
            .join(projects, projects.c.id == branches.c.project_id)
            .where(*_conditions(wanted), _is_in_range(branches.c.deleted_at, wanted.start))
        )
        if only is not None:
            statement = statement.where(branches.c.id.in_(only))
        if after is not None:
            place = sa.select(branches.c.project_id, branches.c.id).where(branches.c.id == after)
            statement = statement.where(sa.tuple_(branches.c.project_id, branches.c.id) > place.scalar_subquery())
        ordered = statement.order_by(branches.c.project_id, branches.c.id).limit(limit)
        return [from_row(CountedBranch, row) for row in await self._all(ordered, org_id=wanted.org_id)]

    async def is_known(self, row_id: str) -> bool:
        """Return whether a project or a branch has this id, which a cursor names."""
        exists = [sa.exists().where(table.c.id == row_id) for table in (projects, branches)]
        return bool(await self._value(sa.select(sa.or_(*exists))))

    async def list_terms(self, project_ids: Collection[ProjectId]) -> dict[ProjectId, list[ProjectTerm]]:
        """Return the terms of each project, oldest first."""
        found: dict[ProjectId, list[ProjectTerm]] = {}
        for row in await self._all(_TERMS, projects=list(project_ids)):
            found.setdefault(ProjectId(row["project_id"]), []).append(from_row(ProjectTerm, row))
        return found

    async def list_buckets(self, wanted: "BucketQuery") -> "Buckets":
        """Return the buckets in the range, and the last one before it of each term, oldest first."""
        table = consumption.c
        own = [table.granularity == wanted.granularity.value, table.project_id.in_(wanted.project_ids)]
        if wanted.branch_ids is None:
            own.append(table.branch_id == "")
        else:
            own.append(table.branch_id.in_(wanted.branch_ids))
        start, until, since = (sa.type_coerce(table[name], sa.BigInteger) for name in ("start", "until", "since"))
        columns = [start, until, *(table[name] for name in wanted.columns), table.project_id, table.branch_id, since]
        last = (
            sa.select(table.project_id, table.branch_id, table.since, sa.func.max(table.start).label("start"))
            .where(*own, table.start < wanted.start)
            .group_by(table.project_id, table.branch_id, table.since)
            .subquery("last")
        )
        same = [table[name] == last.c[name] for name in ("project_id", "branch_id", "since", "start")]
        before = sa.select(*columns).join(last, sa.and_(*same)).where(*own)
        inside = (
            sa.select(*columns)
            .where(*own, table.start >= wanted.start, table.start < wanted.end)
            .order_by(table.project_id, table.branch_id, table.start)
        )
        found: dict[tuple[str, str], dict[int, list[StoredBucket]]] = {}
        place: tuple[Any, ...] = ()
        own_buckets: list[StoredBucket] = []
        for statement in (before, inside):
            for row in await self._tuples(statement):
                if row[-3:] != place:
                    place = row[-3:]
                    own_buckets = found.setdefault(row[-3:-1], {}).setdefault(row[-1], [])
                own_buckets.append(row)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketQuery:
    granularity: Granularity
    start: datetime
    end: datetime
    project_ids: Sequence[ProjectId]
    branch_ids: Sequence[BranchId] | None = None  # None: the buckets of the projects
    columns: Sequence[str]


def _conditions(wanted: Range) -> list[sa.ColumnElement[bool]]:
    chosen = [projects.c.id.in_(ids) for ids in (wanted.only, wanted.readable) if ids is not None]
    return [_OF_ORGANIZATION, _is_in_range(projects.c.deleted_at, wanted.start), *chosen]


def _is_in_range(deleted_at: sa.Column[Any], start: datetime) -> sa.ColumnElement[bool]:
    return sa.or_(deleted_at.is_(None), deleted_at > start)

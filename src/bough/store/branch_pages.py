"""Branches as they are listed: in an order of the caller's, with what was measured of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa

from bough.domain.branch import Branch
from bough.ids import BranchId, ProjectId
from bough.store.order import SortOrder, SortPosition, paginate_sorted, sorted_page_params
from bough.store.queries import Queries
from bough.store.row_mapping import from_row
from bough.store.search import like_pattern
from bough.store.tables import branches, endpoints, usage, users

SortBy = Literal["name", "created_at", "updated_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchUsage:
    """What the endpoints of a branch used since they were made, those that are gone too."""

    bytes_out: int = 0
    active_seconds: int = 0
    compute_seconds: int = 0
    cpu_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchWithUsage:
    """A branch with what was measured of it, and who made it."""

    branch: Branch
    creator: str
    usage: BranchUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSortOrder(SortOrder):
    by: SortBy

    def position_of(self, branch: Branch) -> SortPosition:
        return SortPosition(getattr(branch, self.by), branch.id)


def _used(column: str) -> sa.ScalarSelect[Any]:
    return (
        sa.select(sa.func.sum(usage.c[column]))
        .join(endpoints, endpoints.c.id == usage.c.endpoint_id)
        .where(endpoints.c.branch_id == branches.c.id)
        .scalar_subquery()
    )


_USED = ("bytes_out", "active_seconds", "compute_seconds", "cpu_seconds")
_SEEN = sa.select(branches, users.c.name.label("creator"), *(_used(name).label(name) for name in _USED)).join(
    users, users.c.id == branches.c.created_by
)
_OWN = branches.c.project_id == sa.bindparam("project_id")
_ONE = _SEEN.where(_OWN, branches.c.id == sa.bindparam("id"))
_LIVE = branches.c.deleted_at.is_(None)
_ALL = _SEEN.where(_OWN, _LIVE).order_by(branches.c.created_at, branches.c.id)
_FOUND = branches.c.search_key.like(sa.bindparam("search"), escape="\\")
_COUNT = sa.select(sa.func.count()).select_from(branches).where(_OWN, _LIVE, _FOUND)


@cache
def _page(order: BranchSortOrder, *, deleted_too: bool, search: bool, later: bool) -> sa.Select[Any]:
    statement = _SEEN.where(_OWN)
    if not deleted_too:
        statement = statement.where(_LIVE)
    if search:
        statement = statement.where(_FOUND)
    return paginate_sorted(statement, branches.c[order.by], branches.c.id, order, continues=later)


class BranchPages(Queries):
    async def get(self, project_id: ProjectId, branch_id: BranchId) -> BranchWithUsage | None:
        row = await self._one(_ONE, project_id=project_id, id=branch_id)
        return _seen(row) if row else None

    async def list_in_project(self, project_id: ProjectId) -> list[BranchWithUsage]:
        """Those that are not deleted, the oldest first."""
        return [_seen(row) for row in await self._all(_ALL, project_id=project_id)]

    async def page(
        self,
        project_id: ProjectId,
        order: BranchSortOrder,
        *,
        search: str,
        include_deleted: bool,
        limit: int,
        after: SortPosition | None,
    ) -> tuple[list[BranchWithUsage], SortPosition | None]:
        """One page, and where it ended when another follows."""
        statement = _page(order, deleted_too=include_deleted, search=bool(search), later=after is not None)
        values: dict[str, Any] = {"project_id": project_id, **sorted_page_params(limit, after)}
        if search:
            values["search"] = like_pattern(search)
        found = [_seen(row) for row in await self._all(statement, **values)]
        more = order.position_of(found[limit - 1].branch) if len(found) > limit else None
        return found[:limit], more

    async def count(self, project_id: ProjectId, search: str) -> int:
        return int(await self._value(_COUNT, project_id=project_id, search=like_pattern(search)))


def _seen(row: Mapping[str, Any]) -> BranchWithUsage:
    used = BranchUsage(**{name: int(row[name] or 0) for name in _USED})
    return BranchWithUsage(branch=from_row(Branch, row), creator=row["creator"], usage=used)

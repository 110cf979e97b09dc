"""Named queries that list branches with their usage, sorted as the caller requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import sqlalchemy as sa

from bough import clock
from bough.domain.branch import Branch
from bough.ids import BranchId, ProjectId
from bough.store.paging import SortOrder, SortPosition, paginate_sorted, sorted_page_params
from bough.store.period_usage import month_param, of_branch
from bough.store.queries import Queries, like_pattern
from bough.store.row_mapping import from_row
from bough.store.tables import branches, users

SortBy = Literal["name", "created_at", "updated_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchUsage:
    """The usage of a branch in the present month, with that of deleted endpoints."""

    bytes_out: int = 0
    active_seconds: int = 0
    compute_seconds: int = 0
    cpu_seconds: int = 0
    written_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchWithUsage:
    """A branch with its usage and the name of its creator."""

    branch: Branch
    creator: str
    usage: BranchUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchSortOrder(SortOrder):
    by: SortBy

    def position_of(self, branch: Branch) -> SortPosition:
        return SortPosition(getattr(branch, self.by), branch.id)


_USAGE_COLUMNS = ("bytes_out", "active_seconds", "compute_seconds", "cpu_seconds", "written_bytes")
_WITH_USAGE = sa.select(branches, users.c.name.label("creator"), *map(of_branch, _USAGE_COLUMNS)).join(
    users, users.c.id == branches.c.created_by
)
_OWN = branches.c.project_id == sa.bindparam("project_id")
_ONE = _WITH_USAGE.where(_OWN, branches.c.id == sa.bindparam("id"))
_LIVE = branches.c.deleted_at.is_(None)
_ALL = _WITH_USAGE.where(_OWN, _LIVE).order_by(branches.c.created_at, branches.c.id)
_FOUND = branches.c.search_key.like(sa.bindparam("search"), escape="\\")
_COUNT = sa.select(sa.func.count()).select_from(branches).where(_OWN, _LIVE, _FOUND)


@cache
def _page(order: BranchSortOrder, *, include_deleted: bool, search: bool, is_continuation: bool) -> sa.Select[Any]:
    statement = _WITH_USAGE.where(_OWN)
    if not include_deleted:
        statement = statement.where(_LIVE)
    if search:
        statement = statement.where(_FOUND)
    return paginate_sorted(statement, branches.c[order.by], branches.c.id, order, is_continuation=is_continuation)


class BranchPages(Queries):
    async def get(self, project_id: ProjectId, branch_id: BranchId) -> BranchWithUsage | None:
        row = await self._one(_ONE, project_id=project_id, id=branch_id, **_month())
        return _to_branch_with_usage(row) if row else None

    async def list_in_project(self, project_id: ProjectId) -> list[BranchWithUsage]:
        """Return branches that are not deleted, the oldest first."""
        rows = await self._all(_ALL, project_id=project_id, **_month())
        return [_to_branch_with_usage(row) for row in rows]

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
        """Return one page and, if another page follows, the position at which it ended."""
        statement = _page(
            order, include_deleted=include_deleted, search=bool(search), is_continuation=after is not None
        )
        values: dict[str, Any] = {"project_id": project_id, **sorted_page_params(limit, after), **_month()}
        if search:
            values["search"] = like_pattern(search)
        entries = [_to_branch_with_usage(row) for row in await self._all(statement, **values)]
        more = order.position_of(entries[limit - 1].branch) if len(entries) > limit else None
        return entries[:limit], more

    async def count(self, project_id: ProjectId, search: str) -> int:
        return int(await self._value(_COUNT, project_id=project_id, search=like_pattern(search)))


def _month() -> dict[str, Any]:
    return month_param(clock.now())


def _to_branch_with_usage(row: Mapping[str, Any]) -> BranchWithUsage:
    used = BranchUsage(**{name: round(row[f"used_{name}"]) for name in _USAGE_COLUMNS})
    return BranchWithUsage(branch=from_row(Branch, row), creator=row["creator"], usage=used)

"""The query for what branches store now, as far as it differs from what the consumption history knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from bough.domain.consumption import AMOUNT_NAMES, Amounts
from bough.ids import BranchId, ProjectId
from bough.store.queries import Queries
from bough.store.tables import branch_lineages, branches, consumption_amounts, lineages, projects, snapshots

_is_live = sa.and_(branches.c.deleted_at.is_(None), projects.c.deleted_at.is_(None))
_is_root = branches.c.parent_id.is_(None)
_logical = sa.func.coalesce(branches.c.logical_size, 0)
_changed = sa.case((branches.c.written_bytes < _logical, branches.c.written_bytes), else_=_logical)


def _if_live(value: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    return sa.case((_is_live, value), else_=0)


# A lineage counts for the branch whose data it is, or else for one of those that can go back to it.
_using = branches.alias("using_branch")
_history_owner = sa.func.coalesce(
    sa.select(_using.c.id).where(_using.c.volume_id == lineages.c.volume_id).scalar_subquery(),
    sa.select(sa.func.min(branch_lineages.c.branch_id))
    .where(branch_lineages.c.lineage_id == lineages.c.id)
    .scalar_subquery(),
    sa.select(sa.func.min(_using.c.id))
    .where(_using.c.project_id == lineages.c.project_id, _using.c.is_default)
    .scalar_subquery(),
)
_each_history = sa.select(_history_owner.label("branch_id"), lineages.c.history_bytes).subquery("each_history")
_history = (
    sa.select(
        _each_history.c.branch_id, sa.cast(sa.func.sum(_each_history.c.history_bytes), sa.BigInteger).label("total")
    )
    .group_by(_each_history.c.branch_id)
    .subquery("history")
)
_scheduled = snapshots.alias("scheduled")
_is_in_full = sa.or_(
    snapshots.c.is_manual,
    snapshots.c.created_at
    == sa.select(sa.func.min(_scheduled.c.created_at))
    .where(_scheduled.c.branch_id == snapshots.c.branch_id, ~_scheduled.c.is_manual, _scheduled.c.deleted_at.is_(None))
    .scalar_subquery(),
)
_charged = sa.case((_is_in_full, snapshots.c.full_bytes), else_=snapshots.c.own_bytes)
_snapshots = (
    sa.select(
        snapshots.c.branch_id,
        sa.cast(sa.func.coalesce(sa.func.sum(_charged), 0), sa.BigInteger).label("charged"),
        sa.cast(sa.func.coalesce(sa.func.sum(snapshots.c.own_bytes), 0), sa.BigInteger).label("own"),
    )
    .where(snapshots.c.deleted_at.is_(None))
    .group_by(snapshots.c.branch_id)
    .subquery("kept_snapshots")
)
_data = _if_live(sa.case((_is_root, _logical), else_=_changed))
# After the deletion of a project nothing of it counts any more, although it can be recovered.
_of_project = sa.case((projects.c.deleted_at.is_(None), 1), else_=0)
_history_bytes = sa.func.coalesce(_history.c.total, 0) * _of_project
_current = {
    "root_bytes": _if_live(sa.case((_is_root, _logical), else_=0)),
    "child_bytes": _if_live(sa.case((_is_root, 0), else_=_changed)),
    "history_bytes": _history_bytes,
    "snapshot_bytes": sa.func.coalesce(_snapshots.c.charged, 0) * _of_project,
    "child_branches": _if_live(sa.case((_is_root, 0), else_=1)),
    "stored_bytes": _data + _history_bytes + sa.func.coalesce(_snapshots.c.own, 0) * _of_project,
    "logical_bytes": _if_live(_logical),
}
_CHANGED = (
    sa.select(branches.c.project_id, branches.c.id, *(_current[name].label(name) for name in AMOUNT_NAMES))
    .join(projects, projects.c.id == branches.c.project_id)
    .outerjoin(_history, _history.c.branch_id == branches.c.id)
    .outerjoin(_snapshots, _snapshots.c.branch_id == branches.c.id)
    .outerjoin(
        consumption_amounts,
        sa.and_(
            consumption_amounts.c.project_id == branches.c.project_id, consumption_amounts.c.branch_id == branches.c.id
        ),
    )
    .where(sa.or_(*(_current[name] != sa.func.coalesce(consumption_amounts.c[name], 0) for name in AMOUNT_NAMES)))
    .order_by(branches.c.project_id, branches.c.id)
)
# Branches whose rows no longer exist.
_REMOVED = sa.select(consumption_amounts.c.project_id, consumption_amounts.c.branch_id).where(
    consumption_amounts.c.branch_id != "",
    ~sa.exists().where(branches.c.id == consumption_amounts.c.branch_id),
    sa.or_(*(consumption_amounts.c[name] != 0 for name in AMOUNT_NAMES)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchAmounts:
    project_id: ProjectId
    branch_id: BranchId
    amounts: Amounts


class StoredAmounts(Queries):
    async def list_changed(self) -> list[BranchAmounts]:
        """Compare every branch with what is known: for a periodic task, with a slow read."""
        changed = [_to_branch_amounts(row, row["id"]) for row in await self._all(_CHANGED)]
        return changed + [_to_branch_amounts(row, row["branch_id"]) for row in await self._all(_REMOVED)]


def _to_branch_amounts(row: Mapping[str, Any], branch_id: str) -> BranchAmounts:
    return BranchAmounts(
        project_id=ProjectId(row["project_id"]),
        branch_id=BranchId(branch_id),
        amounts=Amounts(**{name: int(row.get(name) or 0) for name in AMOUNT_NAMES}),
    )

"""Named queries on branches that have not been used for a while."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.branch import Branch, BranchState
from bough.domain.endpoint import EndpointState
from bough.ids import BranchId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row
from bough.store.tables import branches, endpoints, projects, snapshot_schedules

_child = branches.alias("child")
_unarchived = (_child.c.deleted_at.is_(None), _child.c.state != BranchState.ARCHIVED)
_HAS_UNARCHIVED_CHILDREN = sa.select(sa.exists().where(equals_param(_child.c.parent_id), *_unarchived))
_used_since = sa.bindparam("used_since", type_=branches.c.created_at.type)
_USES = (endpoints.c.created_at, endpoints.c.last_active, endpoints.c.started_at, endpoints.c.suspended_at)
_IS_UP = sa.and_(
    endpoints.c.deleted_at.is_(None),
    sa.or_(endpoints.c.state == EndpointState.ACTIVE, endpoints.c.pending_state == EndpointState.ACTIVE),
)
_DUE = (
    sa.select(branches)
    .join(projects, projects.c.id == branches.c.project_id)
    .where(
        projects.c.deleted_at.is_(None),
        branches.c.deleted_at.is_(None),
        branches.c.state == BranchState.READY,
        ~branches.c.is_default,
        ~branches.c.is_protected,
        branches.c.created_at <= sa.bindparam("created_before", type_=branches.c.created_at.type),
        branches.c.state_changed_at <= _used_since,
        sa.func.coalesce(branches.c.last_reset_at, branches.c.created_at) <= _used_since,
        ~sa.exists().where(_child.c.parent_id == branches.c.id, *_unarchived),
        ~sa.exists().where(snapshot_schedules.c.branch_id == branches.c.id),  # each snapshot would unarchive it
        ~sa.exists().where(
            endpoints.c.branch_id == branches.c.id, sa.or_(_IS_UP, *(use > _used_since for use in _USES))
        ),
    )
    .order_by(branches.c.state_changed_at, branches.c.id)
    .limit(sa.bindparam("row_limit", type_=sa.Integer()))
)


class UnusedBranches(Queries):
    async def list_due_for_archiving(
        self, *, created_before: datetime, used_since: datetime, limit: int
    ) -> list[Branch]:
        """Return the branches to archive by the rules of `domain/archive_policy.py`, the longest unchanged first."""
        rows = await self._all(_DUE, created_before=created_before, used_since=used_since, row_limit=limit)
        return [from_row(Branch, row) for row in rows]

    async def has_unarchived_children(self, branch_id: BranchId) -> bool:
        return bool(await self._value(_HAS_UNARCHIVED_CHILDREN, parent_id=branch_id))

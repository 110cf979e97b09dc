"""Named queries on branches, their volumes and lineages."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.branch import Branch
from bough.ids import BranchId, ProjectId, VolumeId
from bough.store.lineages import Lineages
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import (
    branch_lineages,
    branches,
    databases,
    endpoints,
    lineages,
    projects,
    roles,
    snapshot_schedules,
    usage,
    volumes,
)

_ONE = sa.select(branches).where(equals_param(branches.c.id), equals_param(branches.c.project_id))
_live = branches.c.deleted_at.is_(None)
_IN_PROJECT = (
    sa.select(branches).where(equals_param(branches.c.project_id), _live).order_by(branches.c.created_at, branches.c.id)
)
_COUNT = sa.select(sa.func.count()).select_from(branches).where(equals_param(branches.c.project_id), _live)
_HAS_CHILDREN = sa.select(sa.exists().where(equals_param(branches.c.parent_id), _live))
_LIMIT = sa.bindparam("row_limit", type_=sa.Integer())
_EXPIRED = (
    sa.select(branches)
    .join(projects, projects.c.id == branches.c.project_id)
    .where(
        _live,
        branches.c.expires_at.is_not(None),
        branches.c.expires_at <= sa.bindparam("now", type_=branches.c.expires_at.type),
        projects.c.deleted_at.is_(None),
    )
    .order_by(branches.c.expires_at)
    .limit(_LIMIT)
)
_PAST_RECOVERY = (
    sa.select(branches)
    .where(
        branches.c.recoverable_until.is_not(None),
        branches.c.recoverable_until <= sa.bindparam("now", type_=branches.c.recoverable_until.type),
    )
    .order_by(branches.c.recoverable_until, branches.c.deleted_at)
    .limit(_LIMIT)
)
_HISTORY_VOLUMES = (
    sa.select(lineages.c.volume_id)
    .join(branch_lineages, branch_lineages.c.lineage_id == lineages.c.id)
    .where(equals_param(branch_lineages.c.branch_id))
)
_IS_IN_HISTORY = sa.exists().where(branch_lineages.c.lineage_id == lineages.c.id)
_position = sa.bindparam("current_position", type_=branches.c.wal_position.type)
_RECORD_WAL_POSITION = (
    sa.update(branches)
    .where(equals_param(branches.c.id, "own_id"))
    .values(
        written_bytes=sa.case(
            (_position > branches.c.wal_position, branches.c.written_bytes + _position - branches.c.wal_position),
            else_=branches.c.written_bytes,
        ),
        wal_position=_position,
    )
)


class Branches(Queries):
    async def add(self, branch: Branch) -> None:
        await self._insert(branches, _columns(branch))

    async def save(self, branch: Branch) -> None:
        await self._save(branches, _columns(branch))

    async def get(self, project_id: ProjectId, branch_id: BranchId) -> Branch | None:
        """Include deleted branches."""
        row = await self._one(_ONE, id=branch_id, project_id=project_id)
        return from_row(Branch, row) if row else None

    async def get_by_name(self, project_id: ProjectId, name: str) -> Branch | None:
        row = await self._one(
            sa.select(branches).where(branches.c.project_id == project_id, branches.c.name == name, _live)
        )
        return from_row(Branch, row) if row else None

    async def list_in_project(self, project_id: ProjectId) -> list[Branch]:
        return [from_row(Branch, row) for row in await self._all(_IN_PROJECT, project_id=project_id)]

    async def list_with_deleted(self, project_id: ProjectId) -> list[Branch]:
        rows = await self._all(sa.select(branches).where(branches.c.project_id == project_id))
        return [from_row(Branch, row) for row in rows]

    async def get_default(self, project_id: ProjectId) -> Branch | None:
        row = await self._one(
            sa.select(branches).where(branches.c.project_id == project_id, branches.c.is_default, _live)
        )
        return from_row(Branch, row) if row else None

    async def count_in_project(self, project_id: ProjectId) -> int:
        return int(await self._value(_COUNT, project_id=project_id))

    async def has_children(self, branch_id: BranchId) -> bool:
        return bool(await self._value(_HAS_CHILDREN, parent_id=branch_id))

    async def list_expired(self, now: datetime, limit: int) -> list[Branch]:
        """Return expired branches of projects that are not deleted."""
        return [from_row(Branch, row) for row in await self._all(_EXPIRED, now=now, row_limit=limit)]

    async def set_logical_size(self, branch_id: BranchId, size: int) -> None:
        await self._run(sa.update(branches).where(branches.c.id == branch_id).values(logical_size=size))

    async def record_wal_position(self, branch_id: BranchId, position: int) -> None:
        """Count the growth of the WAL as written bytes. A lower position, as after a restore, counts as nothing."""
        await self._run(_RECORD_WAL_POSITION, own_id=branch_id, current_position=position)

    async def move_children(self, parent_id: BranchId, to: BranchId) -> None:
        """Move deleted children too. `to` does not become its own parent."""
        own = (branches.c.parent_id == parent_id, branches.c.id != to)
        await self._run(sa.update(branches).where(*own).values(parent_id=to))

    async def list_past_recovery(self, now: datetime, limit: int) -> list[Branch]:
        """Return deleted branches whose data still exists and whose recovery period is over."""
        return [from_row(Branch, row) for row in await self._all(_PAST_RECOVERY, now=now, row_limit=limit)]

    async def end_recovery(self, branch_id: BranchId) -> None:
        """Make the deleted branch unrecoverable."""
        await self._run(sa.update(branches).where(branches.c.id == branch_id).values(recoverable_until=None))

    async def delete_contents(self, branch_id: BranchId) -> None:
        """Delete the contents of a deleted branch.

        Keeps the rows of the branch and of its endpoints with their usage, lineages in another branch's history, and
        lineages with a retired volume.
        """
        own = await self._volumes_of_history(branch_id)
        for table in (roles, databases, branch_lineages, snapshot_schedules):
            await self._run(sa.delete(table).where(table.c.branch_id == branch_id))
        retired = sa.select(volumes.c.id).where(volumes.c.retired_at.is_not(None))
        await self._run(
            sa.delete(lineages).where(
                lineages.c.volume_id.in_(own), lineages.c.volume_id.not_in(retired), ~_IS_IN_HISTORY
            )
        )

    async def delete(self, branch_id: BranchId, kept_volumes: Collection[VolumeId] = ()) -> None:
        """Delete all rows of a branch, and the volumes and lineages that no other branch uses.

        The rows of `kept_volumes` stay, for the task that deletes the volumes.
        """
        of_branch = endpoints.c.branch_id == branch_id
        volume_id = await self._value(sa.select(branches.c.volume_id).where(branches.c.id == branch_id))
        replicas = await self._all(
            sa.select(endpoints.c.volume_id).where(of_branch, endpoints.c.volume_id.is_not(None))
        )
        own_volumes = {*await self._volumes_of_history(branch_id), *(row["volume_id"] for row in replicas)}
        await self._run(sa.delete(usage).where(usage.c.endpoint_id.in_(sa.select(endpoints.c.id).where(of_branch))))
        for table in (roles, databases, branch_lineages, snapshot_schedules, endpoints):
            await self._run(sa.delete(table).where(table.c.branch_id == branch_id))
        await self._run(sa.update(branches).where(branches.c.parent_id == branch_id).values(parent_id=None))
        await self._run(sa.delete(branches).where(branches.c.id == branch_id))
        await Lineages(self._connection).remove_volumes({*own_volumes, volume_id} - {*kept_volumes, None})

    async def find_by_volumes(self, volume_ids: Collection[VolumeId]) -> dict[VolumeId, Branch]:
        """Map volumes to the branches that use them."""
        rows = await self._all(
            sa.select(branches).where(branches.c.volume_id.in_(volume_ids), branches.c.deleted_at.is_(None))
        )
        return {VolumeId(row["volume_id"]): from_row(Branch, row) for row in rows}

    async def _volumes_of_history(self, branch_id: BranchId) -> list[VolumeId]:
        return [VolumeId(row["volume_id"]) for row in await self._all(_HISTORY_VOLUMES, branch_id=branch_id)]


def _columns(branch: Branch) -> Mapping[str, Any]:
    """Add the search key, case-folded in Python because SQLite folds only ASCII."""
    return {**to_columns(branch), "search_key": f"{branch.name}\n{branch.id}".casefold()}

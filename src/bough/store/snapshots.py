"""Named queries on snapshots. Only the code that removes their data finds deleted snapshots."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.snapshot import Snapshot
from bough.ids import ProjectId, SnapshotId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import projects, snapshots, volumes

_live = snapshots.c.deleted_at.is_(None)
_ONE = sa.select(snapshots).where(equals_param(snapshots.c.id), equals_param(snapshots.c.project_id))
_OF_PROJECT = (
    sa.select(snapshots)
    .where(equals_param(snapshots.c.project_id), _live)
    .order_by(snapshots.c.created_at.desc(), snapshots.c.id)
)
_NAMES = sa.select(snapshots.c.name).where(equals_param(snapshots.c.project_id), _live)
_COUNT = sa.select(sa.func.count()).select_from(snapshots).where(equals_param(snapshots.c.project_id), _live)
_EXPIRED = (
    sa.select(snapshots)
    .join(projects, projects.c.id == snapshots.c.project_id)
    .where(
        _live,
        snapshots.c.expires_at.is_not(None),
        snapshots.c.expires_at <= sa.bindparam("now", type_=snapshots.c.expires_at.type),
        projects.c.deleted_at.is_(None),
    )
    .order_by(snapshots.c.expires_at)
    .limit(sa.bindparam("row_limit", type_=sa.Integer()))
)


class Snapshots(Queries):
    async def add(self, snapshot: Snapshot) -> None:
        """The row of the volume must exist."""
        await self._insert(snapshots, to_columns(snapshot))

    async def save(self, snapshot: Snapshot) -> None:
        await self._save(snapshots, to_columns(snapshot))

    async def get(self, project_id: ProjectId, snapshot_id: SnapshotId) -> Snapshot | None:
        """Include snapshots that are being deleted."""
        row = await self._one(_ONE, id=snapshot_id, project_id=project_id)
        return from_row(Snapshot, row) if row else None

    async def get_by_name(self, project_id: ProjectId, name: str) -> Snapshot | None:
        row = await self._one(
            sa.select(snapshots).where(snapshots.c.project_id == project_id, snapshots.c.name == name, _live)
        )
        return from_row(Snapshot, row) if row else None

    async def list_in_project(self, project_id: ProjectId) -> list[Snapshot]:
        """Return the newest first."""
        return [from_row(Snapshot, row) for row in await self._all(_OF_PROJECT, project_id=project_id)]

    async def list_with_deleted(self, project_id: ProjectId) -> list[Snapshot]:
        """Include snapshots that are being deleted."""
        rows = await self._all(sa.select(snapshots).where(snapshots.c.project_id == project_id))
        return [from_row(Snapshot, row) for row in rows]

    async def list_names(self, project_id: ProjectId) -> set[str]:
        return {row["name"] for row in await self._all(_NAMES, project_id=project_id)}

    async def count_in_project(self, project_id: ProjectId) -> int:
        return int(await self._value(_COUNT, project_id=project_id))

    async def list_expired(self, now: datetime, limit: int) -> list[Snapshot]:
        """Return expired snapshots of projects that are not deleted."""
        return [from_row(Snapshot, row) for row in await self._all(_EXPIRED, now=now, row_limit=limit)]

    async def delete(self, snapshot: Snapshot) -> None:
        """Delete the rows of the snapshot and of its volume."""
        await self._run(sa.delete(snapshots).where(snapshots.c.id == snapshot.id))
        await self._run(sa.delete(volumes).where(volumes.c.id == snapshot.volume_id))

"""Named queries on volumes and lineages."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from bough.domain.branch import Branch, BranchLineage, Lineage, Volume
from bough.domain.history import LineageRange
from bough.ids import BranchId, LineageId, ProjectId, VolumeId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import branch_lineages, branches, endpoints, lineages, snapshots, volumes

_BRANCH_LINEAGES = (
    sa.select(branch_lineages).where(equals_param(branch_lineages.c.branch_id)).order_by(branch_lineages.c.position)
)
_LINEAGES = sa.select(lineages).where(
    lineages.c.id.in_(sa.select(branch_lineages.c.lineage_id).where(equals_param(branch_lineages.c.branch_id)))
)
_IS_IN_HISTORY = sa.exists().where(branch_lineages.c.lineage_id == lineages.c.id)
_IS_REFERENCED = sa.or_(
    *(sa.exists().where(table.c.volume_id == volumes.c.id) for table in (branches, endpoints, snapshots))
)
_RETIRED = sa.select(volumes).where(volumes.c.retired_at.is_not(None)).order_by(volumes.c.retired_at)


class Lineages(Queries):
    async def add_volume(self, volume: Volume) -> None:
        await self._insert(volumes, to_columns(volume))

    async def remove_volume(self, volume_id: VolumeId) -> None:
        """Delete the volume and its lineage, which must not be part of any history."""
        await self.remove_volumes([volume_id])

    async def remove_volumes(self, volume_ids: Collection[VolumeId]) -> None:
        """Delete volumes and their lineages, except those that a history or another row still refers to.

        The row of a deleted branch refers to its volume as long as the branch is listed.
        """
        await self._run(sa.delete(lineages).where(lineages.c.volume_id.in_(volume_ids), ~_IS_IN_HISTORY))
        unused = (volumes.c.id.in_(volume_ids), volumes.c.id.not_in(sa.select(lineages.c.volume_id)))
        await self._run(sa.update(volumes).where(*unused).values(retired_at=None))
        await self._run(sa.delete(volumes).where(*unused, ~_IS_REFERENCED))

    async def list_volume_ids(self, project_id: ProjectId) -> list[VolumeId]:
        """Return all volumes: those of branches, read replicas and snapshots, and unused ones."""
        rows = await self._all(sa.select(volumes.c.id).where(volumes.c.project_id == project_id))
        return [VolumeId(row["id"]) for row in rows]

    async def retire_volume(self, volume_id: VolumeId, now: datetime) -> None:
        """Mark a volume that no branch uses any more."""
        await self._run(sa.update(volumes).where(volumes.c.id == volume_id).values(retired_at=now))

    async def list_retired_volumes(self) -> list[Volume]:
        return [from_row(Volume, row) for row in await self._all(_RETIRED)]

    async def add(self, lineage: Lineage) -> None:
        await self._insert(lineages, to_columns(lineage))

    async def save(self, lineage: Lineage) -> None:
        await self._save(lineages, to_columns(lineage))

    async def get_by_volume(self, volume_id: VolumeId) -> Lineage | None:
        row = await self._one(sa.select(lineages).where(lineages.c.volume_id == volume_id))
        return from_row(Lineage, row) if row else None

    async def list_in_project(self, project_id: ProjectId) -> list[Lineage]:
        rows = await self._all(sa.select(lineages).where(lineages.c.project_id == project_id))
        return [from_row(Lineage, row) for row in rows]

    async def add_branch_lineage(self, branch_lineage: BranchLineage) -> None:
        await self._insert(branch_lineages, to_columns(branch_lineage))

    async def list_ranges(self, branch_id: BranchId) -> list[LineageRange]:
        """Return the lineages of the branch's history in order; the last one is the current lineage."""
        history = [from_row(BranchLineage, row) for row in await self._all(_BRANCH_LINEAGES, branch_id=branch_id)]
        rows = [from_row(Lineage, row) for row in await self._all(_LINEAGES, branch_id=branch_id)]
        by_id = {lineage.id: lineage for lineage in rows}
        return [LineageRange(branch_lineage=each, lineage=by_id[each.lineage_id]) for each in history]

    async def replace_branch_lineages(self, branch_id: BranchId, history: list[BranchLineage]) -> None:
        """Replace the history of the branch and number its parts."""
        await self._run(sa.delete(branch_lineages).where(branch_lineages.c.branch_id == branch_id))
        for position, branch_lineage in enumerate(history):
            fields = {**to_columns(branch_lineage), "branch_id": branch_id, "position": position}
            await self._insert(branch_lineages, fields)

    async def set_history_start(self, volume_id: VolumeId, at: datetime, lsn: str | None) -> None:
        """Set the earliest point that can be restored."""
        own = lineages.c.volume_id == volume_id
        await self._run(sa.update(lineages).where(own).values(began_at=at, began_lsn=lsn))

    async def list_branches(self, lineage_id: LineageId) -> list[Branch]:
        """Return the branches whose history includes the lineage, including deleted ones that can be recovered."""
        rows = await self._all(
            sa.select(branches).where(
                branches.c.id.in_(
                    sa.select(branch_lineages.c.branch_id).where(branch_lineages.c.lineage_id == lineage_id)
                ),
                branches.c.deleted_at.is_(None) | branches.c.recoverable_until.is_not(None),
            )
        )
        return [from_row(Branch, row) for row in rows]

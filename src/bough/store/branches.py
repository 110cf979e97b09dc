"""Named queries on branches, their volumes and lineages."""

from dataclasses import dataclass

import sqlalchemy as sa

from bough.domain.branch import Branch, Lineage, LineageStretch, Volume
from bough.ids import BranchId, ProjectId, VolumeId
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import (
    branch_lineages,
    branches,
    databases,
    endpoints,
    lineages,
    projects,
    roles,
    usage,
    volumes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUse:
    """Which branch of which project a volume holds."""

    volume_id: VolumeId
    branch_id: BranchId
    branch_name: str
    project_id: ProjectId
    project_name: str


_USES = sa.select(
    branches.c.volume_id,
    branches.c.id.label("branch_id"),
    branches.c.name.label("branch_name"),
    branches.c.project_id,
    projects.c.name.label("project_name"),
).join(projects, projects.c.id == branches.c.project_id)
_ONE = sa.select(branches).where(same(branches.c.id), same(branches.c.project_id))


class Branches(Queries):
    async def add(self, branch: Branch) -> None:
        await self._insert(branches, columns_of(branch))

    async def add_volume(self, volume: Volume) -> None:
        await self._insert(volumes, columns_of(volume))

    async def add_lineage(self, lineage: Lineage, stretch: LineageStretch) -> None:
        await self._insert(lineages, columns_of(lineage))
        await self._insert(branch_lineages, columns_of(stretch))

    async def save(self, branch: Branch) -> None:
        await self._save(branches, columns_of(branch))

    async def get(self, project_id: ProjectId, branch_id: BranchId) -> Branch | None:
        row = await self._one(_ONE, id=branch_id, project_id=project_id)
        return rebuild(Branch, row) if row else None

    async def of_project(self, project_id: ProjectId) -> list[Branch]:
        rows = await self._all(
            sa.select(branches)
            .where(branches.c.project_id == project_id, branches.c.deleted_at.is_(None))
            .order_by(branches.c.created_at, branches.c.id)
        )
        return [rebuild(Branch, row) for row in rows]

    async def every_of(self, project_id: ProjectId) -> list[Branch]:
        """Deleted ones too."""
        rows = await self._all(sa.select(branches).where(branches.c.project_id == project_id))
        return [rebuild(Branch, row) for row in rows]

    async def default(self, project_id: ProjectId) -> Branch | None:
        row = await self._one(
            sa.select(branches).where(
                branches.c.project_id == project_id, branches.c.is_default, branches.c.deleted_at.is_(None)
            )
        )
        return rebuild(Branch, row) if row else None

    async def volume_uses(self) -> list[VolumeUse]:
        """Of every branch that is not purged; for an overview, not for a request."""
        return [VolumeUse(**row) for row in await self._all(_USES)]

    async def history(self, branch_id: BranchId) -> list[LineageStretch]:
        rows = await self._all(
            sa.select(branch_lineages)
            .where(branch_lineages.c.branch_id == branch_id)
            .order_by(branch_lineages.c.position)
        )
        return [rebuild(LineageStretch, row) for row in rows]

    async def set_size(self, branch_id: BranchId, size: int) -> None:
        await self._run(sa.update(branches).where(branches.c.id == branch_id).values(logical_size=size))

    async def forget(self, branch_id: BranchId) -> None:
        """Remove every row of a branch, its volume's and lineages' too."""
        volume = sa.select(branches.c.volume_id).where(branches.c.id == branch_id)
        volume_id = await self._value(volume)
        own_endpoints = sa.select(endpoints.c.id).where(endpoints.c.branch_id == branch_id)
        await self._run(sa.delete(usage).where(usage.c.endpoint_id.in_(own_endpoints)))
        for table in (roles, databases, branch_lineages, endpoints):
            await self._run(sa.delete(table).where(table.c.branch_id == branch_id))
        await self._run(sa.delete(branches).where(branches.c.id == branch_id))
        await self._run(sa.delete(lineages).where(lineages.c.volume_id == volume_id))
        await self._run(sa.delete(volumes).where(volumes.c.id == volume_id))

"""Named queries on what each volume is used for. Meant for an overview, too slow for a request."""

from dataclasses import dataclass

import sqlalchemy as sa

from bough.ids import BranchId, EndpointId, ProjectId, VolumeId
from bough.store.queries import Queries
from bough.store.tables import branches, endpoints, projects, snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUse:
    """The branch and project that a volume belongs to."""

    volume_id: VolumeId
    branch_id: BranchId
    branch_name: str
    project_id: ProjectId
    project_name: str
    replica_id: EndpointId | None  # the read replica that uses the volume
    snapshot_name: str | None = None  # the snapshot that uses the volume


_USE = (
    branches.c.id.label("branch_id"),
    branches.c.name.label("branch_name"),
    branches.c.project_id,
    projects.c.name.label("project_name"),
)
_OWN_USES = sa.select(branches.c.volume_id, sa.null().label("replica_id"), *_USE).join(
    projects, projects.c.id == branches.c.project_id
)
_REPLICA_USES = (
    sa.select(endpoints.c.volume_id, endpoints.c.id.label("replica_id"), *_USE)
    .select_from(endpoints)
    .join(branches, branches.c.id == endpoints.c.branch_id)
    .join(projects, projects.c.id == branches.c.project_id)
    .where(endpoints.c.volume_id.is_not(None))
)
_SNAPSHOT_USES = (
    sa.select(
        snapshots.c.volume_id,
        sa.null().label("replica_id"),
        snapshots.c.name.label("snapshot_name"),
        snapshots.c.branch_id,
        sa.func.coalesce(branches.c.name, snapshots.c.branch_id).label("branch_name"),  # the branch may be deleted
        snapshots.c.project_id,
        projects.c.name.label("project_name"),
    )
    .select_from(snapshots)
    .join(projects, projects.c.id == snapshots.c.project_id)
    .outerjoin(branches, branches.c.id == snapshots.c.branch_id)
)


class VolumeUses(Queries):
    async def list_all(self) -> list[VolumeUse]:
        """Return the volumes of branches that are not purged, of read replicas and of snapshots."""
        queries = (_OWN_USES, _REPLICA_USES, _SNAPSHOT_USES)
        return [VolumeUse(**row) for query in queries for row in await self._all(query)]

"""Named queries for the tasks that maintain the history of lineages."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.branch import BranchLineage, BranchState
from bough.domain.endpoint import EndpointState, EndpointType
from bough.ids import BranchId, LineageId, ProjectId, VolumeId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row
from bough.store.tables import branch_lineages, branches, endpoints, lineages, projects


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLineage:
    """A lineage of a project that is not deleted, and of no branch that is still being created."""

    id: LineageId
    volume_id: VolumeId
    project_id: ProjectId
    branch_id: BranchId | None  # the branch whose current data it is
    wal_position: int | None  # the end of its WAL at the last measurement
    retention_seconds: int  # the project's setting


_HAS_DATA = branches.c.deleted_at.is_(None) | branches.c.recoverable_until.is_not(None)
_EVERY = (
    sa.select(
        lineages.c.id,
        lineages.c.volume_id,
        lineages.c.project_id,
        branches.c.id.label("branch_id"),
        branches.c.wal_position,
        projects.c.history_retention_seconds.label("retention_seconds"),
    )
    .select_from(lineages)
    .join(projects, projects.c.id == lineages.c.project_id)
    .outerjoin(branches, sa.and_(branches.c.volume_id == lineages.c.volume_id, _HAS_DATA))
    .where(
        projects.c.deleted_at.is_(None),
        branches.c.id.is_(None) | (branches.c.state != BranchState.INIT),
    )
)
_OF_PROJECT = _EVERY.where(equals_param(lineages.c.project_id))
_RUNNING = _EVERY.join(endpoints, endpoints.c.branch_id == branches.c.id).where(
    endpoints.c.state == EndpointState.ACTIVE,
    endpoints.c.type == EndpointType.READ_WRITE,
    endpoints.c.deleted_at.is_(None),
)
_SAVE_HISTORY_START_AND_SIZE = sa.update(lineages).where(equals_param(lineages.c.id, "own_id"))
_DELETE_BRANCH_LINEAGE = sa.delete(branch_lineages).where(
    equals_param(branch_lineages.c.branch_id),
    equals_param(branch_lineages.c.position),
    equals_param(branch_lineages.c.lineage_id),
)

_CHANGED_SINCE = sa.select(
    sa.exists().where(
        equals_param(branch_lineages.c.branch_id),
        branch_lineages.c.position > 0,
        branch_lineages.c.from_at > sa.bindparam("since", type_=branch_lineages.c.from_at.type),
    )
)


class Histories(Queries):
    async def list_running(self) -> list[LiveLineage]:
        """Return lineages that a compute is writing to."""
        return await self._select(_RUNNING)

    async def list_all(self) -> list[LiveLineage]:
        """Read every lineage: for a periodic task, not for a request."""
        return await self._select(_EVERY)

    async def list_in_project(self, project_id: ProjectId) -> list[LiveLineage]:
        return await self._select(_OF_PROJECT, project_id=project_id)

    async def save_history_start_and_size(
        self, lineage_id: LineageId, *, began_at: datetime | None, began_lsn: str | None, history_bytes: int
    ) -> None:
        """Record the earliest point of the history and its size."""
        await self._run(
            _SAVE_HISTORY_START_AND_SIZE,
            own_id=lineage_id,
            began_at=began_at,
            began_lsn=began_lsn,
            history_bytes=history_bytes,
        )

    async def was_restored_since(self, branch_id: BranchId, moment: datetime) -> bool:
        """Return whether a restore has replaced the branch's data since `moment`."""
        return bool(await self._value(_CHANGED_SINCE, branch_id=branch_id, since=moment))

    async def delete_branch_lineage(self, branch_lineage: BranchLineage) -> None:
        """Remove a part of the branch's history that can no longer be restored."""
        await self._run(
            _DELETE_BRANCH_LINEAGE,
            branch_id=branch_lineage.branch_id,
            position=branch_lineage.position,
            lineage_id=branch_lineage.lineage_id,
        )

    async def delete_branch_lineages_of(self, lineage_id: LineageId) -> None:
        """Remove the lineage from the history of all branches, deleted ones included."""
        await self._run(sa.delete(branch_lineages).where(branch_lineages.c.lineage_id == lineage_id))

    async def _select(self, statement: sa.Select[Any], **values: Any) -> list[LiveLineage]:
        return [from_row(LiveLineage, row) for row in await self._all(statement, **values)]

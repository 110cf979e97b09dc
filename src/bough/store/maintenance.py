"""Named queries on planned maintenance."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from bough.domain.maintenance import Maintenance
from bough.ids import ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import maintenance, projects

_ONE = sa.select(maintenance).where(equals_param(maintenance.c.project_id))
_PLANNED = (
    sa.select(maintenance)
    .join(projects, projects.c.id == maintenance.c.project_id)
    .where(maintenance.c.scheduled_for.is_not(None), projects.c.deleted_at.is_(None))
    .order_by(maintenance.c.scheduled_for, maintenance.c.project_id)
)


class Maintenances(Queries):
    async def get(self, project_id: ProjectId) -> Maintenance | None:
        row = await self._one(_ONE, project_id=project_id)
        return _to_maintenance(row) if row else None

    async def save(self, changed: Maintenance) -> None:
        """Add or overwrite the row of the project."""
        await self._run(sa.delete(maintenance).where(maintenance.c.project_id == changed.project_id))
        await self._insert(maintenance, to_columns(changed))

    async def list_planned(self) -> list[Maintenance]:
        """Return those of projects that are not deleted, the earliest first."""
        return [_to_maintenance(row) for row in await self._all(_PLANNED)]


def _to_maintenance(row: Mapping[str, Any]) -> Maintenance:
    return from_row(Maintenance, row)

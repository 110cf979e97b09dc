"""Named queries on instant databases."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.instant_database import InstantDatabase
from bough.ids import ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import instant_databases, projects

_ONE = sa.select(instant_databases).where(equals_param(instant_databases.c.digest))
_OF_PROJECT = sa.select(instant_databases).where(equals_param(instant_databases.c.project_id))
_SAVE = sa.update(instant_databases).where(equals_param(instant_databases.c.digest, "saved_digest"))
_now = sa.bindparam("now", type_=instant_databases.c.expires_at.type)
_EXPIRED = (
    sa.select(instant_databases)
    .join(projects, projects.c.id == instant_databases.c.project_id)
    .where(
        projects.c.deleted_at.is_(None),
        instant_databases.c.claimed_at.is_(None),
        instant_databases.c.expires_at <= _now,
        sa.or_(instant_databases.c.claiming_until.is_(None), instant_databases.c.claiming_until <= _now),
    )
    .order_by(instant_databases.c.expires_at)
    .limit(sa.bindparam("most", type_=sa.Integer))
)


class InstantDatabases(Queries):
    async def add(self, database: InstantDatabase) -> None:
        """Raise Duplicate if the id exists."""
        await self._insert(instant_databases, to_columns(database))

    async def save(self, database: InstantDatabase) -> None:
        columns = {name: value for name, value in to_columns(database).items() if name != "digest"}
        await self._run(_SAVE, saved_digest=database.digest, **columns)

    async def get(self, digest: str) -> InstantDatabase | None:
        row = await self._one(_ONE, digest=digest)
        return from_row(InstantDatabase, row) if row else None

    async def get_by_project(self, project_id: ProjectId) -> InstantDatabase | None:
        row = await self._one(_OF_PROJECT, project_id=project_id)
        return from_row(InstantDatabase, row) if row else None

    async def list_expired(self, now: datetime, limit: int) -> list[InstantDatabase]:
        """Return expired databases that are neither claimed, being claimed, nor deleted, the oldest first."""
        return [from_row(InstantDatabase, row) for row in await self._all(_EXPIRED, now=now, most=limit)]

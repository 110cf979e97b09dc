"""Named queries on databases."""

from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from bough.domain.database import Database
from bough.ids import BranchId
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import databases

_OF_BRANCH = sa.select(databases).where(same(databases.c.branch_id)).order_by(databases.c.id)
_DELETE = sa.delete(databases).where(same(databases.c.id))
_TOLD = sa.update(databases).where(same(databases.c.branch_id, "own_branch"), same(databases.c.name, "own_name"))


class Databases(Queries):
    async def add(self, database: Database) -> Database:
        """With the id that it got."""
        columns = {name: value for name, value in columns_of(database).items() if name != "id"}
        return replace(database, id=await self._insert(databases, columns))

    async def save(self, database: Database) -> None:
        """Raises Duplicate when the branch has another of its name."""
        await self._save(databases, columns_of(database))

    async def set_told(self, branch_id: BranchId, name: str, now: datetime) -> None:
        """Postgres has it."""
        await self._run(_TOLD, own_branch=branch_id, own_name=name, is_wished=False, updated_at=now)

    async def remove(self, database: Database) -> None:
        await self._run(_DELETE, id=database.id)

    async def get(self, branch_id: BranchId, name: str) -> Database | None:
        row = await self._one(sa.select(databases).where(databases.c.branch_id == branch_id, databases.c.name == name))
        return rebuild(Database, row) if row else None

    async def of_branch(self, branch_id: BranchId) -> list[Database]:
        rows = await self._all(_OF_BRANCH, branch_id=branch_id)
        return [rebuild(Database, row) for row in rows]

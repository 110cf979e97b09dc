"""Named queries on databases."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from bough.domain.database import Database
from bough.ids import BranchId
from bough.store.queries import Queries, same
from bough.store.rebuild import rebuild
from bough.store.tables import databases

_OF_BRANCH = sa.select(databases).where(same(databases.c.branch_id)).order_by(databases.c.id)


class Databases(Queries):
    async def add(self, columns: Mapping[str, Any]) -> Database:
        database_id = await self._insert(databases, columns)
        return rebuild(Database, {"id": database_id, **columns})

    async def get(self, branch_id: BranchId, name: str) -> Database | None:
        row = await self._one(sa.select(databases).where(databases.c.branch_id == branch_id, databases.c.name == name))
        return rebuild(Database, row) if row else None

    async def of_branch(self, branch_id: BranchId) -> list[Database]:
        rows = await self._all(_OF_BRANCH, branch_id=branch_id)
        return [rebuild(Database, row) for row in rows]

"""Named queries on databases."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.database import Database
from bough.ids import BranchId
from bough.store.queries import Queries, same, saving
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import databases

_PAGE = 500  # rows read in one go
_OF_BRANCH = (
    sa.select(databases)
    .where(same(databases.c.branch_id), databases.c.id > sa.bindparam("after", type_=databases.c.id.type))
    .order_by(databases.c.id)
    .limit(_PAGE)
)
_DELETE = sa.delete(databases).where(same(databases.c.id))
_TOLD = sa.update(databases).where(same(databases.c.branch_id, "own_branch"), same(databases.c.name, "own_name"))


class Databases(Queries):
    async def add(self, database: Database) -> Database:
        """With the id that it got."""
        return replace(database, id=await self._insert(databases, _without_id(database)))

    async def save(self, database: Database) -> None:
        """Raises Duplicate when the branch has another of its name."""
        await self._save(databases, columns_of(database))

    async def add_all(self, made: Sequence[Database]) -> None:
        await self._insert_many(databases, [_without_id(database) for database in made])

    async def save_all(self, changed: Sequence[Database]) -> None:
        await self._run_many(saving(databases), [{"saved_id": each.id, **_without_id(each)} for each in changed])

    async def remove_all(self, gone: Sequence[Database]) -> None:
        await self._run_many(_DELETE, [{"id": each.id} for each in gone])

    async def set_told(self, branch_id: BranchId, name: str, now: datetime) -> None:
        """Postgres has it."""
        await self._run(_TOLD, own_branch=branch_id, own_name=name, is_wished=False, updated_at=now)

    async def remove(self, database: Database) -> None:
        await self._run(_DELETE, id=database.id)

    async def get(self, branch_id: BranchId, name: str) -> Database | None:
        row = await self._one(sa.select(databases).where(databases.c.branch_id == branch_id, databases.c.name == name))
        return rebuild(Database, row) if row else None

    async def of_branch(self, branch_id: BranchId) -> list[Database]:
        found: list[Database] = []
        while True:
            page = await self._all(_OF_BRANCH, branch_id=branch_id, after=found[-1].id if found else 0)
            found += [rebuild(Database, row) for row in page]
            if len(page) < _PAGE:
                return found


def _without_id(database: Database) -> dict[str, Any]:
    return {name: value for name, value in columns_of(database).items() if name != "id"}

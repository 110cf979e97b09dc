"""Named queries on databases."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.database import Database
from bough.ids import BranchId
from bough.store.queries import Queries, equals_param, update_by_id
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import databases

_PAGE = 500  # rows per query
_IN_BRANCH = (
    sa.select(databases)
    .where(equals_param(databases.c.branch_id), databases.c.id > sa.bindparam("after", type_=databases.c.id.type))
    .order_by(databases.c.id)
    .limit(_PAGE)
)
_DELETE = sa.delete(databases).where(equals_param(databases.c.id))
_MARK_APPLIED = sa.update(databases).where(
    equals_param(databases.c.branch_id, "own_branch"), equals_param(databases.c.name, "own_name")
)


class Databases(Queries):
    async def add(self, database: Database) -> Database:
        """Return the database with its new id."""
        return replace(database, id=await self._insert(databases, _without_id(database)))

    async def save(self, database: Database) -> None:
        """Raise Duplicate if the branch has another database with this name."""
        await self._save(databases, to_columns(database))

    async def add_all(self, created: Sequence[Database]) -> None:
        await self._insert_many(databases, [_without_id(database) for database in created])

    async def save_all(self, changed: Sequence[Database]) -> None:
        await self._run_many(update_by_id(databases), [{"saved_id": each.id, **_without_id(each)} for each in changed])

    async def remove_all(self, removed: Sequence[Database]) -> None:
        await self._run_many(_DELETE, [{"id": each.id} for each in removed])

    async def mark_applied(self, branch_id: BranchId, name: str, now: datetime) -> None:
        """Record that Postgres has the database."""
        await self._run(_MARK_APPLIED, own_branch=branch_id, own_name=name, is_wished=False, updated_at=now)

    async def remove(self, database: Database) -> None:
        await self._run(_DELETE, id=database.id)

    async def get(self, branch_id: BranchId, name: str) -> Database | None:
        row = await self._one(sa.select(databases).where(databases.c.branch_id == branch_id, databases.c.name == name))
        return from_row(Database, row) if row else None

    async def list_in_branch(self, branch_id: BranchId) -> list[Database]:
        rows: list[Database] = []
        while True:
            page = await self._all(_IN_BRANCH, branch_id=branch_id, after=rows[-1].id if rows else 0)
            rows += [from_row(Database, row) for row in page]
            if len(page) < _PAGE:
                return rows


def _without_id(database: Database) -> dict[str, Any]:
    return {name: value for name, value in to_columns(database).items() if name != "id"}

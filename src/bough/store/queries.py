"""What every file of named queries stands on: a connection and a few ways to ask.

Statements that every request runs are built once, with `sa.bindparam` for what changes: building
one takes longer than running it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from bough.errors import Internal


class Duplicate(Internal):
    """A row with this key is there already; the caller knows what that means."""


class Queries:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def _one(self, statement: sa.Executable, **values: Any) -> Mapping[str, Any] | None:
        result = await self._connection.execute(statement, values)
        return cast(Mapping[str, Any] | None, result.mappings().first())

    async def _all(self, statement: sa.Executable, **values: Any) -> Sequence[Mapping[str, Any]]:
        result = await self._connection.execute(statement, values)
        return cast(Sequence[Mapping[str, Any]], result.mappings().all())

    async def _value(self, statement: sa.Executable) -> Any:
        return (await self._connection.execute(statement)).scalar()

    async def _run(self, statement: sa.Executable) -> int:
        """How many rows it changed."""
        return (await self._connection.execute(statement)).rowcount

    async def _insert(self, table: sa.Table, values: dict[str, Any]) -> Any:
        """The new row's first key column."""
        key = next(iter(table.primary_key.columns))
        try:
            return await self._value(sa.insert(table).values(values).returning(key))
        except IntegrityError as error:
            raise Duplicate(f"{table.name}: a row with this key exists") from error

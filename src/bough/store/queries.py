"""What every file of named queries stands on: a connection and a few ways to ask.

Statements on a path that somebody waits for are built once, with bound parameters for what changes:
building one takes longer than running it.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from bough.chunks import iterate_chunks
from bough.errors import Internal


class Duplicate(Internal):
    """A row with this key is there already; the caller knows what that means."""


Values = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None  # of one execution, or of many


class Connection(Protocol):
    """Where statements run."""

    async def execute(self, statement: sa.Executable, values: Values = None, /) -> sa.CursorResult[Any]: ...


class Queries:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def _one(self, statement: sa.Executable, **values: Any) -> Mapping[str, Any] | None:
        result = await self._connection.execute(statement, values)
        return cast(Mapping[str, Any] | None, result.mappings().first())

    async def _all(self, statement: sa.Executable, **values: Any) -> Sequence[Mapping[str, Any]]:
        result = await self._connection.execute(statement, values)
        return cast(Sequence[Mapping[str, Any]], result.mappings().all())

    async def _value(self, statement: sa.Executable, **values: Any) -> Any:
        return (await self._connection.execute(statement, values)).scalar()

    async def _run(self, statement: sa.Executable, **values: Any) -> int:
        """How many rows it changed."""
        return (await self._connection.execute(statement, values)).rowcount

    async def _run_many(self, statement: sa.Executable, values: Sequence[Mapping[str, Any]]) -> None:
        """The same statement for each, in a few goes."""
        async for some in iterate_chunks(values):
            await self._connection.execute(statement, some)

    async def _insert_many(self, table: sa.Table, values: Sequence[Mapping[str, Any]]) -> None:
        try:
            await self._run_many(sa.insert(table), values)
        except IntegrityError as error:
            raise Duplicate(f"{table.name}: a row with this key exists") from error

    async def _insert(self, table: sa.Table, values: Mapping[str, Any]) -> Any:
        """The new row's first key column."""
        try:
            return await self._value(_insertion(table), **values)
        except IntegrityError as error:
            raise Duplicate(f"{table.name}: a row with this key exists") from error

    async def _save(self, table: sa.Table, values: Mapping[str, Any]) -> int:
        """Write a whole row over the one with its `id`; how many there were."""
        columns = {name: value for name, value in values.items() if name != "id"}
        try:
            return await self._run(update_by_id(table), saved_id=values["id"], **columns)
        except IntegrityError as error:
            raise Duplicate(f"{table.name}: another row has this key") from error


def equals_param(column: sa.Column[Any], name: str | None = None) -> sa.ColumnElement[bool]:
    """The column has the value that is given under its own name, or another."""
    return column == sa.bindparam(name or column.name, type_=column.type)


@cache
def update_by_id(table: sa.Table) -> sa.Update:
    """Columns get the values given under their names; the row is the one with `saved_id`."""
    return sa.update(table).where(equals_param(table.c.id, "saved_id"))


@cache
def _insertion(table: sa.Table) -> sa.Insert:
    return sa.insert(table).returning(next(iter(table.primary_key.columns)))

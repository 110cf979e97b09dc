"""Base class of the named queries, with helpers to build and run statements.

Statements on a latency-critical path are built once, with bound parameters, because building a statement takes longer
than running it.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from bough.chunks import iterate_chunks
from bough.errors import Internal


class Duplicate(Internal):
    """A row with this key exists already; the caller turns this into an error that the client understands."""


Values = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None  # parameters of one execution or of many


class Connection(Protocol):
    """Runs statements."""

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

    async def _tuples(self, statement: sa.Executable, **values: Any) -> Sequence[tuple[Any, ...]]:
        """Return rows without their names, for thousands of rows."""
        rows = (await self._connection.execute(statement, values)).all()
        return cast(Sequence[tuple[Any, ...]], rows)

    async def _value(self, statement: sa.Executable, **values: Any) -> Any:
        return (await self._connection.execute(statement, values)).scalar()

    async def _run(self, statement: sa.Executable, **values: Any) -> int:
        """Return the number of changed rows."""
        return (await self._connection.execute(statement, values)).rowcount

    async def _run_many(self, statement: sa.Executable, values: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement for each set of values, in a few batches."""
        async for chunk in iterate_chunks(values):
            await self._connection.execute(statement, chunk)

    async def _insert_many(self, table: sa.Table, values: Sequence[Mapping[str, Any]]) -> None:
        try:
            await self._run_many(sa.insert(table), values)
        except IntegrityError as error:
            raise Duplicate(f"The table {table.name} already has a row with this key.") from error

    async def _insert(self, table: sa.Table, values: Mapping[str, Any]) -> Any:
        """Return the first key column of the new row."""
        try:
            return await self._value(_insertion(table), **values)
        except IntegrityError as error:
            raise Duplicate(f"The table {table.name} already has a row with this key.") from error

    async def _save(self, table: sa.Table, values: Mapping[str, Any]) -> int:
        """Overwrite the row with the same `id`. Return the number of changed rows."""
        columns = {name: value for name, value in values.items() if name != "id"}
        try:
            return await self._run(update_by_id(table), saved_id=values["id"], **columns)
        except IntegrityError as error:
            raise Duplicate(f"Another row of the table {table.name} has this key.") from error


def equals_param(column: sa.Column[Any], name: str | None = None) -> sa.ColumnElement[bool]:
    """Compare a column with the bound parameter `name`, by default the column's name."""
    return column == sa.bindparam(name or column.name, type_=column.type)


@cache
def update_by_id(table: sa.Table) -> sa.Update:
    """Update the row whose id is the parameter `saved_id` with the other parameters."""
    return sa.update(table).where(equals_param(table.c.id, "saved_id"))


@cache
def _insertion(table: sa.Table) -> sa.Insert:
    return sa.insert(table).returning(next(iter(table.primary_key.columns)))


def like_pattern(text: str) -> str:
    """Return a LIKE pattern, with `\\` as escape character, that matches case-folded keys containing `text`."""
    escaped = text.casefold().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"

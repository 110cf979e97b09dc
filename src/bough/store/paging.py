"""Keyset pagination: a page continues after the last row of the page before, newest first or in a requested order.

Rows that are added or removed between two pages neither hide another row nor repeat one.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PagePosition:
    """The last row of a page that lists the newest rows first."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    rows: tuple[T, ...]
    next: PagePosition | None  # None: this is the last page


@dataclass(frozen=True, slots=True)
class SortPosition:
    """The last row of a page in a requested order: the value of the sort column, and the id."""

    value: str | datetime
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    by: str
    is_descending: bool


def paginate_newest_first(statement: sa.Select[Any], table: sa.Table, *, is_continuation: bool) -> sa.Select[Any]:
    """Return a statement for the first page or for later ones. `page_params` returns its parameters."""
    if is_continuation:
        position = (
            sa.bindparam("after_created_at", type_=table.c.created_at.type),
            sa.bindparam("after_id", type_=sa.Text()),
        )
        statement = statement.where(sa.tuple_(table.c.created_at, table.c.id) < sa.tuple_(*position))
    return statement.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(
        sa.bindparam("row_limit", type_=sa.Integer())
    )


def page_params(limit: int, after: PagePosition | None) -> dict[str, Any]:
    """Request one row more than `limit`, which tells whether another page follows."""
    position = {} if after is None else {"after_created_at": after.created_at, "after_id": after.id}
    return {"row_limit": limit + 1, **position}


def build_page(rows: list[T], limit: int) -> Page[T]:
    if len(rows) <= limit:
        return Page(tuple(rows), None)
    last: Any = rows[limit - 1]
    return Page(tuple(rows[:limit]), PagePosition(last.created_at, str(last.id)))


def paginate_sorted(
    statement: sa.Select[Any],
    column: sa.ColumnElement[Any],
    row_id: sa.ColumnElement[Any],
    order: SortOrder,
    *,
    is_continuation: bool,
) -> sa.Select[Any]:
    """Return a statement for the first page or for later ones. `sorted_page_params` returns its parameters."""
    if is_continuation:
        key = sa.tuple_(column, row_id)
        position = sa.tuple_(sa.bindparam("after_value", type_=column.type), sa.bindparam("after_id", type_=sa.Text()))
        statement = statement.where(key < position if order.is_descending else key > position)
    columns = (column.desc(), row_id.desc()) if order.is_descending else (column, row_id)
    return statement.order_by(*columns).limit(sa.bindparam("row_limit", type_=sa.Integer()))


def sorted_page_params(limit: int, after: SortPosition | None) -> dict[str, Any]:
    """Request one row more than `limit`, which tells whether another page follows."""
    position = {} if after is None else {"after_value": after.value, "after_id": after.id}
    return {"row_limit": limit + 1, **position}

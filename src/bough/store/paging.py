"""Pages by key: where a page ended is a place in an order, not a count of rows.

Rows that come or go between two pages neither hide a row nor show one twice.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PagePosition:
    """The last row of a page, in the order newest first."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    rows: tuple[T, ...]
    next: PagePosition | None  # None: this was the last page


def paginate_newest_first(statement: sa.Select[Any], table: sa.Table, *, is_continuation: bool) -> sa.Select[Any]:
    """A statement for pages, to be built once; `later`: for those after the first. `placed` gives its values."""
    if is_continuation:
        place = (
            sa.bindparam("after_created_at", type_=table.c.created_at.type),
            sa.bindparam("after_id", type_=sa.Text()),
        )
        statement = statement.where(sa.tuple_(table.c.created_at, table.c.id) < sa.tuple_(*place))
    return statement.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(
        sa.bindparam("row_limit", type_=sa.Integer())
    )


def page_params(limit: int, after: PagePosition | None) -> dict[str, Any]:
    """One row more than asked for, so that we know whether another page follows."""
    place = {} if after is None else {"after_created_at": after.created_at, "after_id": after.id}
    return {"row_limit": limit + 1, **place}


def build_page(rows: list[T], limit: int) -> Page[T]:
    if len(rows) <= limit:
        return Page(tuple(rows), None)
    last: Any = rows[limit - 1]
    return Page(tuple(rows[:limit]), PagePosition(last.created_at, str(last.id)))

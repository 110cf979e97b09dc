"""Pages in an order that the caller chose: where one ended is a value in that order and the row that had it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class SortPosition:
    """The last row of a page in its order."""

    value: str | datetime
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    by: str
    is_descending: bool  # the largest first


def paginate_sorted(
    statement: sa.Select[Any],
    column: sa.ColumnElement[Any],
    row_id: sa.ColumnElement[Any],
    order: SortOrder,
    *,
    continues: bool,
) -> sa.Select[Any]:
    """A statement for pages, to be built once; `later`: for those after the first. `placed_in` gives its values."""
    if continues:
        here = sa.tuple_(column, row_id)
        place = sa.tuple_(sa.bindparam("after_value", type_=column.type), sa.bindparam("after_id", type_=sa.Text()))
        statement = statement.where(here < place if order.is_descending else here > place)
    columns = (column.desc(), row_id.desc()) if order.is_descending else (column, row_id)
    return statement.order_by(*columns).limit(sa.bindparam("row_limit", type_=sa.Integer()))


def sorted_page_params(limit: int, after: SortPosition | None) -> dict[str, Any]:
    """One row more than asked for, so that we know whether another page follows."""
    place = {} if after is None else {"after_value": after.value, "after_id": after.id}
    return {"row_limit": limit + 1, **place}

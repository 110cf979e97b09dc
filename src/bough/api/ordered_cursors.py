"""Cursors of lists in an order that the caller chose: a place in it, as text that means nothing to a client."""

import base64
import binascii
import json
import re
from datetime import UTC, datetime

from bough import ids
from bough.api.shapes import clean
from bough.errors import Invalid
from bough.store.order import Order, OrderedPlace


def cursor_of(place: OrderedPlace, order: Order) -> str:
    value = place.value.isoformat() if isinstance(place.value, datetime) else place.value
    raw = json.dumps([order.by, order.falls, value, place.id])
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def place_of(cursor: str | None, order: Order) -> OrderedPlace | None:
    if not cursor:
        return None
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        by, falls, value, row_id = json.loads(raw)
        if not (isinstance(value, str) and isinstance(row_id, str) and re.fullmatch(ids.PATTERN, row_id)):
            raise ValueError(row_id)
        if (by, falls) != (order.by, order.falls):
            raise Invalid("The cursor belongs to another order: repeat the sort_by and sort_order it was given with.")
        is_moment = order.by.endswith("_at")
        return OrderedPlace(datetime.fromisoformat(value).astimezone(UTC) if is_moment else clean(value), row_id)
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        raise Invalid("The cursor is not one that this API gave; begin without one.") from None

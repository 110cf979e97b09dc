"""Cursors of lists in an order that the caller chose: a place in it, as text that means nothing to a client."""

import base64
import binascii
import json
import re
from datetime import UTC, datetime

from bough import ids
from bough.api.schemas import check_text
from bough.errors import Invalid
from bough.store.paging import SortOrder, SortPosition


def encode_sort_cursor(position: SortPosition, order: SortOrder) -> str:
    value = position.value.isoformat() if isinstance(position.value, datetime) else position.value
    raw = json.dumps([order.by, order.is_descending, value, position.id])
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def decode_sort_cursor(cursor: str | None, order: SortOrder) -> SortPosition | None:
    if not cursor:
        return None
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        by, falls, value, row_id = json.loads(raw)
        if not (isinstance(value, str) and isinstance(row_id, str) and re.fullmatch(ids.PATTERN, row_id)):
            raise ValueError(row_id)
        if (by, falls) != (order.by, order.is_descending):
            raise Invalid("The cursor belongs to another order: repeat the sort_by and sort_order it was given with.")
        is_moment = order.by.endswith("_at")
        return SortPosition(datetime.fromisoformat(value).astimezone(UTC) if is_moment else check_text(value), row_id)
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        raise Invalid("The cursor is not one that this API gave; begin without one.") from None

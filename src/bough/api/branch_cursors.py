"""Cursors of branch lists: a place in the order the caller chose, as text that means nothing to a client."""

import base64
import binascii
import json
import re
from datetime import UTC, datetime

from bough import ids
from bough.api.shapes import clean
from bough.errors import Invalid
from bough.store.branch_pages import BranchOrder, BranchPlace


def cursor_of(place: BranchPlace, order: BranchOrder) -> str:
    value = place.value if isinstance(place.value, str) else place.value.isoformat()
    raw = json.dumps([order.by, order.falls, value, place.id])
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def place_of(cursor: str | None, order: BranchOrder) -> BranchPlace | None:
    if not cursor:
        return None
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        by, falls, value, row_id = json.loads(raw)
        if not (isinstance(value, str) and isinstance(row_id, str) and re.fullmatch(ids.PATTERN, row_id)):
            raise ValueError(row_id)
        if (by, falls) != (order.by, order.falls):
            raise Invalid("The cursor belongs to another order: repeat the sort_by and sort_order it was given with.")
        return BranchPlace(clean(value) if by == "name" else datetime.fromisoformat(value).astimezone(UTC), row_id)
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        raise Invalid("The cursor is not one that this API gave; begin without one.") from None

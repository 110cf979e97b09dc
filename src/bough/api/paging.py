"""Cursors: a place in an order, as text that means nothing to a client."""

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta

from bough import ids
from bough.errors import Invalid
from bough.store.paging import PagePosition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def encode_cursor(position: PagePosition) -> str:
    raw = f"{(position.created_at - _EPOCH) // _MICROSECOND}/{position.id}"
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> PagePosition | None:
    if not cursor:
        return None
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        micros, _, row_id = raw.partition("/")
        if not re.fullmatch(ids.PATTERN, row_id):
            raise ValueError(row_id)
        return PagePosition(_EPOCH + int(micros) * _MICROSECOND, row_id)
    except (binascii.Error, ValueError, OverflowError):
        raise Invalid("The cursor is not one that this API gave. Start again without a cursor.") from None

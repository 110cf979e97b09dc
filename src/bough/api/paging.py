"""Cursors: the position of a page as opaque text, for lists with the newest first and for sorted lists."""

import base64
import binascii
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from bough import ids
from bough.api.schemas import View, check_text
from bough.errors import Invalid
from bough.store.paging import Page, PagePosition, SortOrder, SortPosition

UNKNOWN_CURSOR = "The cursor was not issued by this API. Start again without a cursor."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Pagination(View):
    cursor: str


def to_pagination(page: Page[Any]) -> Pagination | None:
    return None if page.next is None else Pagination(cursor=encode_cursor(page.next))


def encode_cursor(position: PagePosition) -> str:
    return _encode(f"{(position.created_at - _EPOCH) // _MICROSECOND}/{position.id}")


def decode_cursor(cursor: str | None) -> PagePosition | None:
    if not cursor:
        return None
    try:
        micros, _, row_id = _decode(cursor).decode("ascii").partition("/")
        if not re.fullmatch(ids.PATTERN, row_id):
            raise ValueError(row_id)
        return PagePosition(_EPOCH + int(micros) * _MICROSECOND, row_id)
    except (binascii.Error, ValueError, OverflowError):
        raise Invalid(UNKNOWN_CURSOR) from None


def encode_sort_cursor(position: SortPosition, order: SortOrder) -> str:
    value = position.value.isoformat() if isinstance(position.value, datetime) else position.value
    return _encode(json.dumps([order.by, order.is_descending, value, position.id]))


def decode_sort_cursor(cursor: str | None, order: SortOrder) -> SortPosition | None:
    if not cursor:
        return None
    try:
        by, is_descending, value, row_id = json.loads(_decode(cursor).decode())
        if not (isinstance(value, str) and isinstance(row_id, str) and re.fullmatch(ids.PATTERN, row_id)):
            raise ValueError(row_id)
        if (by, is_descending) != (order.by, order.is_descending):
            raise Invalid("The cursor belongs to another sort order. Repeat the sort_by and sort_order of its page.")
        is_timestamp = order.by.endswith("_at")
        return SortPosition(
            datetime.fromisoformat(value).astimezone(UTC) if is_timestamp else check_text(value), row_id
        )
    except (ValueError, TypeError, OverflowError, RecursionError, binascii.Error):
        raise Invalid(UNKNOWN_CURSOR) from None


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str) -> bytes:
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))

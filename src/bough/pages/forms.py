"""Parses submitted forms: a few text fields in UTF-8."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from bough.errors import Invalid

_MEDIA_TYPE = "application/x-www-form-urlencoded"
_MAX_FIELDS = 20
_UNREADABLE = "The form cannot be read. Go back, reload the page and fill it in again."


class Form:
    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """Return the text of a single-line field without surrounding spaces."""
        text = self._fields.get(name, "").strip()
        if not text.isprintable():
            raise Invalid(
                f"The field {name!r} contains a character that is not printable. Enter a single line of text."
            )
        return text

    def secret(self, name: str) -> str:
        """Return the unchanged text, because every character of a password counts."""
        return self._fields.get(name, "")


EMPTY = Form({})


async def read(request: Request) -> Form:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _MEDIA_TYPE:
        raise HTTPException(415, f"Forms must be sent as {_MEDIA_TYPE}. Go back and use the form on the page.")
    try:
        return Form(_fields(await request.body()))
    except ClientDisconnect:
        raise Invalid(_UNREADABLE) from None


def _fields(body: bytes) -> dict[str, str]:
    if not body:
        return {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError:
        raise Invalid(_UNREADABLE) from None
    fields = dict(pairs)
    if len(fields) != len(pairs) or any("\0" in text for pair in pairs for text in pair):
        raise Invalid(_UNREADABLE)
    return fields

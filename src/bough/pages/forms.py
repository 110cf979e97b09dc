"""A form that was sent: a few fields of text in UTF-8, or refused."""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from bough.errors import Invalid

_KIND = "application/x-www-form-urlencoded"
_MOST = 20
_UNREADABLE = "The form could not be read. Go back, reload the page and fill it in again."


class Form:
    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """What was typed into one line, without spaces around it."""
        text = self._fields.get(name, "").strip()
        if not text.isprintable():
            raise Invalid(f"The field {name!r} holds a character that cannot be seen. Write it in one line of text.")
        return text

    def secret(self, name: str) -> str:
        """As it is: every character of a password counts."""
        return self._fields.get(name, "")


EMPTY = Form({})


async def read(request: Request) -> Form:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _KIND:
        raise HTTPException(415, f"Forms are sent as {_KIND}. Go back and use the form of the page.")
    try:
        return Form(_fields(await request.body()))
    except ClientDisconnect:
        raise Invalid(_UNREADABLE) from None


def _fields(body: bytes) -> dict[str, str]:
    if not body:
        return {}
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=_MOST
        )
    except ValueError:
        raise Invalid(_UNREADABLE) from None
    fields = dict(pairs)
    if len(fields) != len(pairs) or any("\0" in text for pair in pairs for text in pair):
        raise Invalid(_UNREADABLE)
    return fields

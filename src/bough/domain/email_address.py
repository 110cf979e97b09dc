"""Validation and normalization of e-mail addresses."""

import re

from bough.errors import Invalid

MAX_LENGTH = 254
_WORD = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SHAPE = re.compile(rf"(?=.{{1,64}}@){_WORD}(?:\.{_WORD})*@{_LABEL}(?:\.{_LABEL})*")


def parse_email_address(text: str) -> str:
    """Return the address in lower case."""
    address = text.strip().lower()
    if len(address) > MAX_LENGTH or not _SHAPE.fullmatch(address):
        raise Invalid(f"{text[:80]!r} is not an e-mail address. Write it like ada@example.com.")
    return address

"""A position in the WAL (LSN), as Postgres writes it: two hexadecimal halves with a slash between. Pure."""

import re

from bough.errors import Invalid

_FORM = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")


def number(text: str) -> int:
    """In bytes from the beginning."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def text(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def is_lsn(given: str) -> bool:
    return _FORM.fullmatch(given) is not None


def parse(given: str, name: str) -> str:
    """What a caller wrote as `name`, in the one way that Postgres writes it."""
    if not is_lsn(given):
        raise Invalid(f"{name} is {given[:40]!r}: write a position in the WAL as 0/1A2B3C4D.")
    return text(number(given))

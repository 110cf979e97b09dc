"""A WAL position (LSN) as Postgres writes it: two hexadecimal numbers separated by a slash. Pure."""

import re

from bough.errors import Invalid

_FORM = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}")


def to_int(text: str) -> int:
    """Return the byte position."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def to_text(position: int) -> str:
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def is_lsn(value: str) -> bool:
    return _FORM.fullmatch(value) is not None


def parse_lsn(value: str, parameter_name: str) -> str:
    """Return a request parameter as Postgres writes it."""
    if not is_lsn(value):
        raise Invalid(f"{parameter_name} is {value[:40]!r}: write a WAL position such as 0/1A2B3C4D.")
    return to_text(to_int(value))

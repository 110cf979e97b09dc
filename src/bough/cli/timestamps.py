"""Moments as people write them: `2h`, `2026-01-31`, `2026-01-31T12:00`, with a zone or in that of this machine."""

import re
from datetime import UTC, datetime, timedelta

import typer

from bough import clock

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,9}) ?([smhdw])")


def parse_timestamp(text: str, option: str) -> datetime:
    """The moment in UTC; `2h` is two hours ago."""
    try:
        if found := _AGO.fullmatch(text.strip()):
            return clock.now() - timedelta(**{_UNITS[found[2]]: int(found[1])})
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is no moment; write it like 2h, 3d, 2026-01-31 or 2026-01-31T12:00.", param_hint=f"'{option}'"
        ) from None


def format_timestamp(text: str) -> str:
    """A moment of the API, in the zone of this machine."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"

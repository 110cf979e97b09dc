"""Timestamps on the command line: `2h`, `2026-01-31` or `2026-01-31T12:00`, with a time zone or in local time."""

import re
from datetime import UTC, datetime, timedelta

import typer

from bough import clock

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,9}) ?([smhdw])")


def parse_timestamp(text: str, option: str) -> datetime:
    """Return the timestamp in UTC; `2h` means two hours ago."""
    try:
        if match := _AGO.fullmatch(text.strip()):
            return clock.now() - timedelta(**{_UNITS[match[2]]: int(match[1])})
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not a time; write it like 2h, 3d, 2026-01-31 or 2026-01-31T12:00.", param_hint=f"'{option}'"
        ) from None


def format_timestamp(text: str) -> str:
    """Return a timestamp of the API in local time."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"

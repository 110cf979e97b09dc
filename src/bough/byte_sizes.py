"""Parses and formats sizes in bytes."""

import re

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_UNIT_NAMES = ("bytes", "kB", "MB", "GB", "TB", "PB")


def parse_bytes(text: str) -> int | None:
    """Parses `50G`, `500M`, `1.5T`, `50 GB`, `50GiB` or plain bytes; None when the text is not a size."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    return int(float(match[1]) * _UNITS[match[2].upper()]) if match else None


def format_in_largest_unit(size: int) -> str:
    """Format a size that may be small or round, such as a limit of a plan: `1.5 kB`, `100 MB`, `16 TB`."""
    unit, value = 0, float(size)
    while value >= 1024 and unit < len(_UNIT_NAMES) - 1:
        value /= 1024
        unit += 1
    return f"{round(value, 1):g} {_UNIT_NAMES[unit]}"


def format_mb_or_gb(size: int) -> str:
    """Format a size of disk or memory for comparison with others: `512 MB`, `5.0 GB`, `16384.0 GB`."""
    return f"{size / 1024**3:.1f} GB" if size >= 1024**3 else f"{size // 1024**2} MB"

"""Parsing and formatting of sizes in bytes."""

import re

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def parse_bytes(text: str) -> int | None:
    """Parse `50G`, `500M`, `1.5T`, `50 GB`, `50GiB` or a number of bytes; None for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    return int(float(found[1]) * _UNITS[found[2].upper()]) if found else None


def format_bytes(size: int) -> str:
    return f"{size / 1024**3:.1f} GB" if size >= 1024**3 else f"{size // 1024**2} MB"

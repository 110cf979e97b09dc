"""Parses and formats sizes in bytes."""

import re

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def parse_bytes(text: str) -> int | None:
    """Parses `50G`, `500M`, `1.5T`, `50 GB`, `50GiB` or plain bytes; None when the text is not a size."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    return int(float(match[1]) * _UNITS[match[2].upper()]) if match else None


def format_bytes(size: int) -> str:
    return f"{size / 1024**3:.1f} GB" if size >= 1024**3 else f"{size // 1024**2} MB"

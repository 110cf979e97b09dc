"""Describes the storage image of a home for `bough status` and `bough storage status`."""

from typing import Any

from bough.byte_sizes import format_mb_or_gb
from bough.engine.local.images.image import Image

_BLOCK_BYTES = 512  # the unit of st_blocks


def describe_image(image: Image | None) -> dict[str, Any] | None:
    """Return the image as the value of the key `image` in JSON output."""
    if image is None:
        return None
    allocated = image.file.stat().st_blocks * _BLOCK_BYTES if image.file.exists() else 0
    return {
        "file": str(image.file),
        "size": image.size,
        "allocated": allocated,
        "thin": image.thin,
        "mounted": image.is_mounted(),
    }


def format_image(facts: dict[str, Any]) -> str:
    thin = "thin, " if facts["thin"] else ""
    sizes = f"{format_mb_or_gb(facts['size'])}, {format_mb_or_gb(facts['allocated'])} allocated"
    return f"{facts['file']} ({thin}{sizes})"

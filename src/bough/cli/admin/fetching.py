"""Fetching Postgres in view of a person."""

from bough.cli.admin import progress
from bough.config import Settings
from bough.engine.local.installs.fetch import ensure_fetched


def fetch(settings: Settings, show_progress: bool) -> None:
    with progress.shown(bars=show_progress) as report:
        ensure_fetched(settings, report)

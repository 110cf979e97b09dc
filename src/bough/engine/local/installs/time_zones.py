"""The time zones of the machine, which the builds of Debian and PyPI use. The one of npm contains its own."""

from pathlib import Path

FOLDER = Path("/usr/share/zoneinfo")
FIX = "apt-get install tzdata"


def explain_missing() -> str | None:
    """Return why builds that need the machine's time zones do not start, in one sentence."""
    if (FOLDER / "UTC").is_file():
        return None
    return f"This machine has no time zones in {FOLDER}, without which Postgres does not start: install tzdata."

"""Volumes whose history falls behind, in a file of the home that `bough doctor` can read while the platform is down."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bough.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryProblem:
    volume_id: str
    project_id: str
    branch_id: str | None
    waiting_bytes: int
    trouble: str


def write(settings: Settings, problems: Sequence[HistoryProblem]) -> None:
    """Replace the file with these problems, or remove it if there are none. Ignores write errors: `doctor` reports
    a full disk separately.
    """
    file = _file(settings)
    try:
        if not problems:
            file.unlink(missing_ok=True)
            return
        temporary = file.with_suffix(".making")
        temporary.write_text(json.dumps([dataclasses.asdict(problem) for problem in problems], indent=1))
        temporary.replace(file)
    except OSError:
        return


def read(settings: Settings) -> list[HistoryProblem]:
    """Return the problems in the file; none if the file is missing or invalid."""
    try:
        return [HistoryProblem(**fields) for fields in json.loads(_file(settings).read_text())]
    except (OSError, ValueError, TypeError):
        return []


def _file(settings: Settings) -> Path:
    return settings.home / "history-troubles.json"

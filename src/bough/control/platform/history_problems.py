"""Whose history falls behind, in a file of the home: `bough doctor` reads it, whether the platform runs or not."""

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
    """All there are now. No file: none. A disk without room for it is named by other lines."""
    file = _file(settings)
    try:
        if not problems:
            file.unlink(missing_ok=True)
            return
        making = file.with_suffix(".making")
        making.write_text(json.dumps([dataclasses.asdict(note) for note in problems], indent=1))
        making.replace(file)
    except OSError:
        return


def read(settings: Settings) -> list[HistoryProblem]:
    """What cannot be read says nothing."""
    try:
        return [HistoryProblem(**note) for note in json.loads(_file(settings).read_text())]
    except (OSError, ValueError, TypeError):
        return []


def _file(settings: Settings) -> Path:
    return settings.home / "history-troubles.json"

"""Why the last automatic update of Postgres failed: a file of the home, which `bough doctor` reads."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bough.config import Settings

_MAX_CHARACTERS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateProblem:
    at: str  # ISO 8601
    message: str


def write(settings: Settings, problem: UpdateProblem | None) -> None:
    """Replace the file, or remove it after a success. Ignores write errors, because `doctor` reports a full disk."""
    file = _file(settings)
    try:
        if problem is None:
            file.unlink(missing_ok=True)
            return
        temporary = file.with_suffix(".making")
        temporary.write_text(json.dumps({**asdict(problem), "message": problem.message[:_MAX_CHARACTERS]}))
        temporary.replace(file)
    except OSError:
        return


def read(settings: Settings) -> UpdateProblem | None:
    try:
        return UpdateProblem(**json.loads(_file(settings).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _file(settings: Settings) -> Path:
    return settings.home / "postgres-update-problem.json"

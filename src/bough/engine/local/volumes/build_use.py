"""Which Postgres build a volume runs with: a file of the platform in the volume's folder.

It is written when a compute has started, so it names the build to go back to when another one does not start. A volume
that no compute of an endpoint has started yet has none.
"""

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from bough.engine.local.durable_files import write_atomically

FILE = "build.json"
CHECKED_FILE = "collations.json"  # names the build whose collations were compared last
MAX_FAILURES = 3  # that may have had another cause, after which the build is not tried again
_MAX_REASON = 500  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildUse:
    pin: str  # of its project
    install: str  # the build with which a compute accepted connections last
    since: str  # ISO 8601; when it did so first
    base: str | None = None  # a base that is kept until the next build has started
    needs_no_base: bool = False  # the project keeps no history, and a copy would take long
    failed: str | None = None  # the build that did not start after it
    failures: int = 0
    reason: str | None = None
    failed_at: str | None = None  # ISO 8601

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        try:
            return cls(**json.loads((folder / FILE).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, folder: Path) -> None:
        """Not synced: after a power failure it is an earlier one, whose build still fits the data."""
        write_atomically(folder / FILE, json.dumps(asdict(self)))

    @property
    def since_time(self) -> datetime:
        return datetime.fromisoformat(self.since)

    def is_put_back_from(self, install: str) -> bool:
        """Return whether this build did not start, and is not tried again."""
        return self.failed == install and self.failures >= MAX_FAILURES

    def with_failure(self, install: str, reason: str, now: datetime, *, is_certain: bool) -> Self:
        """Return it after the build did not start but this one did, so that it will change the data again."""
        earlier = self.failures if self.failed == install else 0
        failures = MAX_FAILURES if is_certain else earlier + 1
        return replace(
            self, base=None, failed=install, failures=failures, reason=reason[:_MAX_REASON], failed_at=now.isoformat()
        )

    def without_failure(self) -> Self:
        return replace(self, failed=None, failures=0, reason=None, failed_at=None)


def read_checked_install(folder: Path) -> str | None:
    """Return the build that the volume ran with when its indexes were checked last."""
    try:
        found: Any = json.loads((folder / CHECKED_FILE).read_text())["install"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) and found else None

"""The result of a check."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"  # the platform runs with limitations
    FAILED = "failed"  # the platform cannot start


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    verdict: Verdict
    message: str
    fix: str = ""  # the command that fixes the problem

    def to_json(self) -> dict[str, str]:
        """The keys are part of the output format of `bough doctor --json`."""
        return {"name": self.name, "verdict": self.verdict, "sentence": self.message, "mend": self.fix}


def ok(name: str, message: str) -> Finding:
    return Finding(name, Verdict.OK, message)


def warning(name: str, message: str, fix: str = "") -> Finding:
    return Finding(name, Verdict.WARNING, message, fix)


def failed(name: str, message: str, fix: str = "") -> Finding:
    return Finding(name, Verdict.FAILED, message, fix)

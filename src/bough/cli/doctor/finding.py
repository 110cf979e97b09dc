"""The result of a check."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"  # the platform runs with limitations
    FAILED = "failed"  # the platform cannot start


@dataclass(frozen=True, slots=True)
class Finding:
    """The field names are the keys of `bough doctor --json`."""

    name: str
    verdict: Verdict
    sentence: str
    mend: str = ""  # the command that fixes the problem


def ok(name: str, message: str) -> Finding:
    return Finding(name, Verdict.OK, message)


def warning(name: str, message: str, fix: str = "") -> Finding:
    return Finding(name, Verdict.WARNING, message, fix)


def failed(name: str, message: str, fix: str = "") -> Finding:
    return Finding(name, Verdict.FAILED, message, fix)

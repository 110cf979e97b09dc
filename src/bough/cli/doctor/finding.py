"""What a check of the machine found."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"  # the platform starts, with less than it could offer
    FAILED = "failed"  # the platform cannot start


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    verdict: Verdict
    sentence: str
    mend: str = ""  # the exact line to type


def ok(name: str, sentence: str) -> Finding:
    return Finding(name, Verdict.OK, sentence)


def warning(name: str, sentence: str, mend: str = "") -> Finding:
    return Finding(name, Verdict.WARNING, sentence, mend)


def failed(name: str, sentence: str, mend: str = "") -> Finding:
    return Finding(name, Verdict.FAILED, sentence, mend)

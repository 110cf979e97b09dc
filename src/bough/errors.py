"""What can go wrong, in words that may be shown.

An error has a kind, a public sentence and a private cause. The inside raises these and
knows nothing of HTTP or SQLSTATE; each edge has one table that translates kinds.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar


class Kind(StrEnum):
    INVALID = "invalid"  # malformed or impossible input
    UNAUTHENTICATED = "unauthenticated"  # no key, or one we do not know
    DENIED = "denied"  # a known caller, a forbidden action
    NOT_FOUND = "not_found"  # absent, or not for this caller
    CAPACITY = "capacity"  # the plan or the machine refuses
    TAKEN = "taken"  # a name or id is in use
    PRECONDITION = "precondition"  # the thing is not in a state that allows it
    RULE = "rule"  # understood, but a rule or limit refuses it
    LOCKED = "locked"  # other work is in the way; always safe to retry
    RATE = "rate"  # too many requests
    UNAVAILABLE = "unavailable"  # cannot be served now; retry later
    INTERNAL = "internal"  # our fault


class PlatformError(Exception):
    """Base of every error that may reach a person. `public` is shown; the cause is not."""

    kind: ClassVar[Kind] = Kind.INTERNAL
    code: str = ""
    transient: bool = False
    retry_after: float | None = None
    details: Mapping[str, Any] = MappingProxyType({})  # shown beside the sentence

    def __init__(self, public: str) -> None:
        super().__init__(public)
        self.public = public


class Invalid(PlatformError):
    kind = Kind.INVALID


class Unauthenticated(PlatformError):
    kind = Kind.UNAUTHENTICATED


class Denied(PlatformError):
    kind = Kind.DENIED


class NotFound(PlatformError):
    """The same words whether a thing is absent or belongs to someone else."""

    kind = Kind.NOT_FOUND

    @classmethod
    def thing(cls, noun: str) -> "NotFound":
        return cls(
            f"The requested {noun} could not be found, or you don't have access to it. "
            "Check the id, and that your API key belongs to its account."
        )


class CapacityExceeded(PlatformError):
    kind = Kind.CAPACITY

    def __init__(self, public: str, code: str, details: Mapping[str, Any]) -> None:
        super().__init__(public)
        self.code = code
        self.details = details


class Taken(PlatformError):
    kind = Kind.TAKEN

    def __init__(self, public: str, code: str = "") -> None:
        super().__init__(public)
        self.code = code


class PreconditionFailed(PlatformError):
    kind = Kind.PRECONDITION


class RuleBroken(PlatformError):
    kind = Kind.RULE

    def __init__(self, public: str, code: str = "") -> None:
        super().__init__(public)
        self.code = code


class Busy(PlatformError):
    kind = Kind.LOCKED
    transient = True
    retry_after = 1.0


class RateExceeded(PlatformError):
    kind = Kind.RATE
    transient = True

    def __init__(self, public: str, retry_after: float) -> None:
        super().__init__(public)
        self.retry_after = retry_after


class Unavailable(PlatformError):
    kind = Kind.UNAVAILABLE
    transient = True
    retry_after = 5.0


class Internal(PlatformError):
    kind = Kind.INTERNAL


class SettingRefused(PlatformError):
    """A setting is unknown or wrong; the sentence names it."""

    kind = Kind.INVALID

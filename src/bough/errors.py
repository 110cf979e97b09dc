"""What can go wrong, in words that may be shown.

An error has a kind, a public sentence and a private cause. The inside raises these and
knows nothing of HTTP or SQLSTATE; each edge has one table that translates kinds.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar


class ErrorKind(StrEnum):
    INVALID = "invalid"  # malformed or impossible input
    UNAUTHENTICATED = "unauthenticated"  # no key, or one we do not know
    DENIED = "denied"  # a known caller, a forbidden action
    NOT_FOUND = "not_found"  # absent, or not for this caller
    CAPACITY = "capacity"  # the plan or the machine refuses
    CONFLICT = "taken"  # a name or id is in use
    PRECONDITION = "precondition"  # the thing is not in a state that allows it
    RULE = "rule"  # understood, but a rule or limit refuses it
    LOCKED = "locked"  # other work is in the way; always safe to retry
    RATE_LIMIT = "rate"  # too many requests
    UNAVAILABLE = "unavailable"  # cannot be served now; retry later
    INTERNAL = "internal"  # our fault


class PlatformError(Exception):
    """Base of every error that may reach a person. `public` is shown; the cause is not."""

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL
    code: str = ""
    transient: bool = False
    retry_after: float | None = None
    details: Mapping[str, Any] = MappingProxyType({})  # shown beside the sentence

    def __init__(self, public_message: str) -> None:
        super().__init__(public_message)
        self.public_message = public_message


class Invalid(PlatformError):
    kind = ErrorKind.INVALID


class Unauthenticated(PlatformError):
    kind = ErrorKind.UNAUTHENTICATED


class Denied(PlatformError):
    kind = ErrorKind.DENIED


class NotFound(PlatformError):
    """The same words whether a thing is absent or belongs to someone else."""

    kind = ErrorKind.NOT_FOUND

    @classmethod
    def resource(cls, noun: str) -> "NotFound":
        return cls(
            f"The requested {noun} could not be found, or you don't have access to it. "
            "Check the id, and that your API key belongs to its account."
        )


class CapacityExceeded(PlatformError):
    kind = ErrorKind.CAPACITY

    def __init__(self, public_message: str, code: str, details: Mapping[str, Any]) -> None:
        super().__init__(public_message)
        self.code = code
        self.details = details


class Conflict(PlatformError):
    kind = ErrorKind.CONFLICT

    def __init__(self, public_message: str, code: str = "") -> None:
        super().__init__(public_message)
        self.code = code


class PreconditionFailed(PlatformError):
    kind = ErrorKind.PRECONDITION


class RuleViolation(PlatformError):
    kind = ErrorKind.RULE

    def __init__(self, public_message: str, code: str = "") -> None:
        super().__init__(public_message)
        self.code = code


class Busy(PlatformError):
    kind = ErrorKind.LOCKED
    transient = True
    retry_after = 1.0


class RateLimitExceeded(PlatformError):
    kind = ErrorKind.RATE_LIMIT
    transient = True

    def __init__(self, public_message: str, retry_after: float) -> None:
        super().__init__(public_message)
        self.retry_after = retry_after


class Unavailable(PlatformError):
    kind = ErrorKind.UNAVAILABLE
    transient = True
    retry_after = 5.0


class Internal(PlatformError):
    kind = ErrorKind.INTERNAL


class InvalidSetting(PlatformError):
    """A setting is unknown or wrong; the sentence names it."""

    kind = ErrorKind.INVALID

"""The errors of the platform.

An error has a kind, a public message and a private cause. The code that raises it does not know about HTTP or
SQLSTATE; each API translates kinds with one table.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar


class ErrorKind(StrEnum):
    INVALID = "invalid"  # malformed or impossible input
    UNAUTHENTICATED = "unauthenticated"  # no key, or an unknown one
    DENIED = "denied"  # the caller lacks a right
    NOT_FOUND = "not_found"  # absent, or not visible to the caller
    CAPACITY = "capacity"  # a limit of the plan or of the machine is reached
    CONFLICT = "taken"  # a name or id is in use
    PRECONDITION = "precondition"  # the resource is not in the required state
    RULE = "rule"  # the request is valid, but a rule forbids it
    LOCKED = "locked"  # a conflicting operation is running; safe to retry
    RATE_LIMIT = "rate"  # too many requests
    UNAVAILABLE = "unavailable"  # temporarily unavailable; retry later
    INTERNAL = "internal"  # a defect of the platform


class PlatformError(Exception):
    """Base of all errors that may reach a user. `public_message` is shown; the cause is not."""

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL
    code: str = ""
    transient: bool = False
    retry_after: float | None = None
    details: Mapping[str, Any] = MappingProxyType({})  # shown with the message

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
    """The same message for absent resources and for those of other accounts."""

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
    """A setting is unknown or invalid; the message names it."""

    kind = ErrorKind.INVALID

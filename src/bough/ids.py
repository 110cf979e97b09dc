"""Typed ids: generation and parsing.

Operations, users and instant databases have UUIDs, and keys have numbers. All other ids match `^[a-z0-9-]{1,60}$` and
show their kind: `br-gentle-salad-ad7v90qq`.
"""

import re
import secrets
import uuid
from datetime import datetime
from typing import Self

from bough import id_words
from bough.errors import Invalid

PATTERN = r"^[a-z0-9-]{1,60}$"
_SHAPE = re.compile(r"[a-z0-9-]{1,60}")
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


def _base36(length: int) -> str:
    return "".join(secrets.choice(_BASE36) for _ in range(length))


class Id(str):
    """Base of string ids. Each kind of id has its own type."""

    __slots__ = ()
    noun = "resource"

    @classmethod
    def parse(cls, text: str) -> Self:
        if not _SHAPE.fullmatch(text):
            raise Invalid(
                f"{text[:80]!r} is not a valid {cls.noun} id: use 1 to 60 lower-case letters, digits and hyphens."
            )
        return cls(text)


class ProjectId(Id):
    noun = "project"

    @classmethod
    def new(cls) -> Self:
        return cls(f"{id_words.random_pair()}-{secrets.randbelow(90_000_000) + 10_000_000}")


class _WordId(Id):
    """An id of the form prefix-adjective-noun-suffix."""

    prefix = ""

    @classmethod
    def new(cls) -> Self:
        return cls(f"{cls.prefix}-{id_words.random_pair()}-{_base36(8)}")


class BranchId(_WordId):
    noun = "branch"
    prefix = "br"


class EndpointId(_WordId):
    noun = "endpoint"
    prefix = "ep"


class OrganizationId(_WordId):
    noun = "organization"
    prefix = "org"


class _RandomId(Id):
    """An id that users rarely see: a prefix and twenty random characters."""

    prefix = ""

    @classmethod
    def new(cls) -> Self:
        return cls(f"{cls.prefix}-{_base36(20)}")


class VolumeId(_RandomId):
    noun = "volume"
    prefix = "vol"


class LineageId(_RandomId):
    noun = "lineage"
    prefix = "lin"


class SnapshotId(_WordId):
    noun = "snapshot"
    prefix = "snap"


class _Uuid(str):
    """A UUID in its usual text form."""

    __slots__ = ()
    noun = "resource"

    @classmethod
    def new(cls) -> Self:
        return cls(uuid.uuid4())

    @classmethod
    def parse(cls, text: str) -> Self:
        try:
            return cls(uuid.UUID(text))
        except ValueError:
            raise Invalid(f"{text[:80]!r} is not a valid {cls.noun} id: use a UUID.") from None


class OperationId(_Uuid):
    noun = "operation"


class InstantId(_Uuid):
    """A secret: it grants access to an instant database, and the right to claim it."""

    noun = "database"

    @classmethod
    def new_at(cls, at: datetime) -> Self:
        """Version 7: the time in milliseconds, then 74 random bits."""
        milliseconds = int(at.timestamp() * 1000)
        number = milliseconds << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
        return cls(uuid.UUID(int=number))


class UserId(_Uuid):
    noun = "user"


class MemberId(_Uuid):
    noun = "member"


class InvitationId(_Uuid):
    noun = "invitation"


class PermissionId(_Uuid):
    noun = "permission"


class TransferRequestId(_Uuid):
    noun = "transfer request"

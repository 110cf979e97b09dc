"""An organization owns projects; every user has a personal one."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bough.ids import OrganizationId, UserId


class MemberRole(StrEnum):
    ADMIN = "admin"  # everything, members and keys included
    MEMBER = "member"  # every project, but not the organization itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: OrganizationId
    name: str
    handle: str
    plan: str
    personal_for: UserId | None  # the user whose personal organization this is
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    org_id: OrganizationId
    user_id: UserId
    role: MemberRole
    joined_at: datetime

"""An organization owns projects. Every user has a personal one."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bough.errors import RuleViolation
from bough.ids import MemberId, OrganizationId, UserId


class MemberRole(StrEnum):
    """The role of a member of an organization."""

    ADMIN = "admin"  # everything, including members and keys
    MEMBER = "member"  # creates projects and changes all of them
    EDITOR = "editor"  # changes all projects
    VIEWER = "viewer"  # reads all projects
    COLLABORATOR = "collaborator"  # only projects shared with them


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    id: OrganizationId
    name: str
    handle: str
    plan: str
    personal_for: UserId | None  # the user whose personal organization this is
    created_at: datetime
    updated_at: datetime
    created_by: UserId | None = None  # plan limits apply to all organizations of a creator together


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    id: MemberId
    org_id: OrganizationId
    user_id: UserId
    role: MemberRole
    joined_at: datetime


def check_accepts_members(organization: Organization) -> None:
    if organization.personal_for is not None:
        raise RuleViolation(
            "This is a personal organization, which has exactly one member. Create an organization for a team, "
            "or share individual projects."
        )


def check_admin_remains(leaving: Member, admins: int) -> None:
    """Call it before a member leaves or stops being an admin."""
    if leaving.role is MemberRole.ADMIN and admins <= 1:
        raise RuleViolation("This is the last admin of the organization. Make another member an admin first.")

"""Access control: levels on projects, roles in organizations, and the rights that they give. Pure.

docs/rights.md documents the same table, and a test compares the two.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from bough.domain.organization import MemberRole


class AccessLevel(IntEnum):
    """The level of access to one project."""

    NONE = 0
    VIEWER = 1  # reads everything except passwords and statements
    EDITOR = 2  # also changes things and sees passwords
    ADMIN = 3  # also shares and deletes


class ProjectRole(StrEnum):
    """A member's role on one project, which overrides the role in the organization."""

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"

    @property
    def level(self) -> AccessLevel:
        return AccessLevel[self.name]


class Right(StrEnum):
    """A right on a project. The values are part of error messages: "may not … this project"."""

    READ = "read"
    CONNECT = "see passwords of"
    SEE_STATEMENTS = "see the statements of"
    WRITE = "change"
    SEE_MEMBERS = "see the people of"
    SHARE = "share"
    DELETE = "delete"
    TRANSFER = "transfer"


class OrgRight(StrEnum):
    """A right on an organization: "may not … this organization"."""

    READ = "see"
    SEE_MEMBERS = "see the members of"
    SEE_CONSUMPTION = "see the consumption of"
    CREATE_PROJECTS = "create projects in"
    CREATE_PROJECT_KEYS = "create keys for projects of"
    AUDIT = "read the audit log of"
    MANAGE = "manage"


REQUIRED_LEVELS: Mapping[Right, AccessLevel] = {
    Right.READ: AccessLevel.VIEWER,
    Right.CONNECT: AccessLevel.EDITOR,
    Right.SEE_STATEMENTS: AccessLevel.EDITOR,  # their texts contain data and may contain passwords
    Right.WRITE: AccessLevel.EDITOR,
    Right.SHARE: AccessLevel.ADMIN,
    Right.DELETE: AccessLevel.ADMIN,
}

ROLE_LEVELS: Mapping[MemberRole, AccessLevel] = {
    MemberRole.ADMIN: AccessLevel.ADMIN,
    MemberRole.MEMBER: AccessLevel.EDITOR,
    MemberRole.EDITOR: AccessLevel.EDITOR,
    MemberRole.VIEWER: AccessLevel.VIEWER,
    MemberRole.COLLABORATOR: AccessLevel.NONE,
}

_ALL_ROLES = frozenset(MemberRole)
_ORGANIZATION_WIDE_ROLES = _ALL_ROLES - {MemberRole.COLLABORATOR}
_ADMINS = frozenset({MemberRole.ADMIN})

ORG_RIGHT_ROLES: Mapping[OrgRight, frozenset[MemberRole]] = {
    OrgRight.READ: _ALL_ROLES,
    OrgRight.SEE_MEMBERS: _ORGANIZATION_WIDE_ROLES,
    OrgRight.SEE_CONSUMPTION: _ORGANIZATION_WIDE_ROLES,
    OrgRight.CREATE_PROJECTS: _ADMINS | {MemberRole.MEMBER},
    OrgRight.CREATE_PROJECT_KEYS: _ADMINS | {MemberRole.MEMBER, MemberRole.EDITOR},
    OrgRight.AUDIT: _ADMINS,
    OrgRight.MANAGE: _ADMINS,
}
ORGANIZATION_KEY_RIGHTS = frozenset(OrgRight) - {OrgRight.MANAGE}  # a key cannot manage members

SHARED_LEVEL = AccessLevel.EDITOR  # of a project shared by e-mail


def resolve_level(role: MemberRole | None, project_role: ProjectRole | None, *, is_shared: bool) -> AccessLevel:
    """Return a user's access level, from the role in the organization, the role on the project, and sharing."""
    if role is MemberRole.ADMIN:
        return AccessLevel.ADMIN
    inside = AccessLevel.NONE if role is None else project_role.level if project_role else ROLE_LEVELS[role]
    return max(inside, SHARED_LEVEL) if is_shared else inside


def is_allowed(right: Right, level: AccessLevel, role: MemberRole | None) -> bool:
    """Return whether a user with this level has the right; `role` is the role in the project's organization."""
    if level < AccessLevel.VIEWER:
        return False
    if right is Right.SEE_MEMBERS:
        return level is AccessLevel.ADMIN or role in _ORGANIZATION_WIDE_ROLES
    if right is Right.TRANSFER:  # only admins may move a project out of their organization
        return role is MemberRole.ADMIN
    return level >= REQUIRED_LEVELS[right]

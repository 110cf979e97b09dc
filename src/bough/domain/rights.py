"""Who may do what: levels on a project, roles in an organization, and what each of them allows.

Pure: docs/rights.md says the same for people, and a test holds the two together.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from bough.domain.organization import MemberRole


class AccessLevel(IntEnum):
    """How much of one project somebody has."""

    NONE = 0
    VIEWER = 1  # reads, but no password
    EDITOR = 2  # changes, and sees passwords
    ADMIN = 3  # shares and deletes, too


class ProjectRole(StrEnum):
    """What a member of the organization was given on one project, instead of what their role gives."""

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"

    @property
    def level(self) -> AccessLevel:
        return AccessLevel[self.name]


class Right(StrEnum):
    """On a project. The words stand in refusals: "may not … this project"."""

    READ = "read"
    CONNECT = "see passwords of"
    WRITE = "change"
    SEE_PEOPLE = "see the people of"
    SHARE = "share"
    DELETE = "delete"
    TRANSFER = "give away"


class OrgRight(StrEnum):
    """On an organization: "may not … this organization"."""

    READ = "see"
    SEE_MEMBERS = "see the members of"
    CREATE_PROJECTS = "create projects in"
    MAKE_PROJECT_KEYS = "make keys for projects of"
    AUDIT = "read the audit of"
    MANAGE = "manage"


REQUIRED_LEVELS: Mapping[Right, AccessLevel] = {
    Right.READ: AccessLevel.VIEWER,
    Right.CONNECT: AccessLevel.EDITOR,
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
    OrgRight.CREATE_PROJECTS: _ADMINS | {MemberRole.MEMBER},
    OrgRight.MAKE_PROJECT_KEYS: _ADMINS | {MemberRole.MEMBER, MemberRole.EDITOR},
    OrgRight.AUDIT: _ADMINS,
    OrgRight.MANAGE: _ADMINS,
}
ORGANIZATION_KEY_RIGHTS = frozenset(OrgRight) - {OrgRight.MANAGE}  # people are managed by people

SHARED_LEVEL = AccessLevel.EDITOR  # what a permission by e-mail gives


def resolve_level(role: MemberRole | None, project_role: ProjectRole | None, *, is_shared: bool) -> AccessLevel:
    """Of a person: their role in the project's organization, what they were given on it, whether it is shared."""
    if role is MemberRole.ADMIN:
        return AccessLevel.ADMIN
    inside = AccessLevel.NONE if role is None else project_role.level if project_role else ROLE_LEVELS[role]
    return max(inside, SHARED_LEVEL) if is_shared else inside


def is_allowed(right: Right, level: AccessLevel, role: MemberRole | None) -> bool:
    """Whether somebody of this level may; `role` is their role in the project's organization."""
    if level < AccessLevel.VIEWER:
        return False
    if right is Right.SEE_PEOPLE:
        return level is AccessLevel.ADMIN or role in _ORGANIZATION_WIDE_ROLES
    if right is Right.TRANSFER:  # what belongs to an organization leaves it by its admins only
        return role is MemberRole.ADMIN
    return level >= REQUIRED_LEVELS[right]

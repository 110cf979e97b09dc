"""Who may do what: levels on a project, roles in an organization, and what each of them allows.

Pure: docs/rights.md says the same for people, and a test holds the two together.
"""

from collections.abc import Mapping
from enum import IntEnum, StrEnum

from bough.domain.organization import MemberRole


class Level(IntEnum):
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
    def level(self) -> Level:
        return Level[self.name]


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


LEAST: Mapping[Right, Level] = {
    Right.READ: Level.VIEWER,
    Right.CONNECT: Level.EDITOR,
    Right.WRITE: Level.EDITOR,
    Right.SHARE: Level.ADMIN,
    Right.DELETE: Level.ADMIN,
}

USUAL: Mapping[MemberRole, Level] = {
    MemberRole.ADMIN: Level.ADMIN,
    MemberRole.MEMBER: Level.EDITOR,
    MemberRole.EDITOR: Level.EDITOR,
    MemberRole.VIEWER: Level.VIEWER,
    MemberRole.COLLABORATOR: Level.NONE,
}

_EVERYBODY = frozenset(MemberRole)
_INSIDE = _EVERYBODY - {MemberRole.COLLABORATOR}
_ADMINS = frozenset({MemberRole.ADMIN})

ROLES: Mapping[OrgRight, frozenset[MemberRole]] = {
    OrgRight.READ: _EVERYBODY,
    OrgRight.SEE_MEMBERS: _INSIDE,
    OrgRight.CREATE_PROJECTS: _ADMINS | {MemberRole.MEMBER},
    OrgRight.MAKE_PROJECT_KEYS: _ADMINS | {MemberRole.MEMBER, MemberRole.EDITOR},
    OrgRight.AUDIT: _ADMINS,
    OrgRight.MANAGE: _ADMINS,
}
ORGANIZATION_KEY = frozenset(OrgRight) - {OrgRight.MANAGE}  # people are managed by people

SHARED = Level.EDITOR  # what a permission by e-mail gives


def level(role: MemberRole | None, given: ProjectRole | None, *, shared: bool) -> Level:
    """Of a person: their role in the project's organization, what they were given on it, whether it is shared."""
    if role is MemberRole.ADMIN:
        return Level.ADMIN
    inside = Level.NONE if role is None else given.level if given else USUAL[role]
    return max(inside, SHARED) if shared else inside


def allows(right: Right, has: Level, role: MemberRole | None) -> bool:
    """Whether somebody of this level may; `role` is their role in the project's organization."""
    if has < Level.VIEWER:
        return False
    if right is Right.SEE_PEOPLE:
        return has is Level.ADMIN or role in _INSIDE
    if right is Right.TRANSFER:  # what belongs to an organization leaves it by its admins only
        return role is MemberRole.ADMIN
    return has >= LEAST[right]

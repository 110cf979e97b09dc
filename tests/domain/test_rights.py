"""The table of rights in the documentation equals the one in the code."""

import re
from pathlib import Path

import pytest

from bough.domain import rights
from bough.domain.organization import MemberRole
from bough.domain.rights import AccessLevel, OrgRight, ProjectRole, Right

PAGE = Path(__file__).parents[2] / "docs" / "rights.md"
ORGANIZATION = {
    "see its name and plan": OrgRight.READ,
    "see members and invitations": OrgRight.SEE_MEMBERS,
    "see the consumption of all its projects": OrgRight.SEE_CONSUMPTION,
    "create projects in it, and accept projects from other organizations": OrgRight.CREATE_PROJECTS,
    "create keys for single projects, and revoke the keys they created": OrgRight.CREATE_PROJECT_KEYS,
    "read its audit log": OrgRight.AUDIT,
    "invite, change roles, remove members, create and revoke keys of the organization, rename it, "
    "transfer projects out of it": OrgRight.MANAGE,
}
PROJECT = {
    "see everything but passwords and statements": Right.READ,
    "see passwords and connection strings": Right.CONNECT,
    "see the [statements](statements.md) of computes": Right.SEE_STATEMENTS,
    "change it and everything in it": Right.WRITE,
    "share it, give members a role on it": Right.SHARE,
    "delete and recover it": Right.DELETE,
}


def _table(heading: str) -> dict[str, list[str]]:
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)
    return {first: rest for first, *rest in (line.split(" | ") for line in lines)}


def test_the_page_has_a_row_for_every_right() -> None:
    assert set(ORGANIZATION.values()) == set(OrgRight)
    assert set(PROJECT.values()) == set(rights.REQUIRED_LEVELS)


def test_the_page_says_what_roles_may() -> None:
    table = _table("Roles in an organization")
    *roles, last = table.pop("may")
    assert (roles, last) == ([role.value for role in MemberRole], "organization key")
    levels = table.pop("level on each of its projects")
    assert levels == [rights.ROLE_LEVELS[role].name if rights.ROLE_LEVELS[role] else "no" for role in MemberRole] + [
        "ADMIN"
    ]
    documented = {ORGANIZATION[what]: [cell == "yes" for cell in cells] for what, cells in table.items()}
    assert documented == {
        right: [
            *(role in rights.ORG_RIGHT_ROLES[right] for role in MemberRole),
            right in rights.ORGANIZATION_KEY_RIGHTS,
        ]
        for right in OrgRight
    }


def test_the_page_says_what_levels_allow() -> None:
    table = _table("Levels on a project")
    assert table.pop("may") == [level.name for level in AccessLevel if level]
    documented = {PROJECT[what]: [cell == "yes" for cell in cells] for what, cells in table.items()}
    assert documented == {
        right: [rights.is_allowed(right, level, None) for level in AccessLevel if level] for right in PROJECT.values()
    }


@pytest.mark.parametrize("right", Right)
def test_without_a_level_nothing_is_allowed(right: Right) -> None:
    assert not any(rights.is_allowed(right, AccessLevel.NONE, role) for role in (None, *MemberRole))


def test_a_role_on_a_project_stands_in_place_of_the_usual_level_but_of_no_admins() -> None:
    assert rights.resolve_level(MemberRole.MEMBER, ProjectRole.VIEWER, is_shared=False) is AccessLevel.VIEWER
    assert rights.resolve_level(MemberRole.COLLABORATOR, ProjectRole.ADMIN, is_shared=False) is AccessLevel.ADMIN
    assert rights.resolve_level(MemberRole.ADMIN, ProjectRole.VIEWER, is_shared=False) is AccessLevel.ADMIN
    assert (
        rights.resolve_level(None, ProjectRole.ADMIN, is_shared=False) is AccessLevel.NONE
    )  # left over from a former member


def test_of_permission_and_role_the_higher_counts() -> None:
    assert rights.resolve_level(None, None, is_shared=True) is AccessLevel.EDITOR
    assert rights.resolve_level(MemberRole.VIEWER, None, is_shared=True) is AccessLevel.EDITOR
    assert rights.resolve_level(MemberRole.COLLABORATOR, ProjectRole.ADMIN, is_shared=True) is AccessLevel.ADMIN


def test_people_are_seen_from_inside_and_projects_leave_by_admins() -> None:
    assert rights.is_allowed(Right.SEE_MEMBERS, AccessLevel.VIEWER, MemberRole.VIEWER)
    assert not rights.is_allowed(Right.SEE_MEMBERS, AccessLevel.EDITOR, None)
    assert rights.is_allowed(Right.SEE_MEMBERS, AccessLevel.ADMIN, MemberRole.COLLABORATOR)
    assert not rights.is_allowed(Right.TRANSFER, AccessLevel.ADMIN, MemberRole.COLLABORATOR)
    assert rights.is_allowed(Right.TRANSFER, AccessLevel.ADMIN, MemberRole.ADMIN)

"""The table of rights: what the page for people says is what the code decides by."""

import re
from pathlib import Path

import pytest

from bough.domain import rights
from bough.domain.organization import MemberRole
from bough.domain.rights import Level, OrgRight, ProjectRole, Right

PAGE = Path(__file__).parents[2] / "docs" / "rights.md"
ORGANIZATION = {
    "see its name and plan": OrgRight.READ,
    "see members and invitations": OrgRight.SEE_MEMBERS,
    "create projects in it, take projects over into it": OrgRight.CREATE_PROJECTS,
    "make keys for single projects, and revoke those they made": OrgRight.MAKE_PROJECT_KEYS,
    "read its audit": OrgRight.AUDIT,
    "invite, change roles, remove members, make and revoke keys of the organization, rename it, "
    "transfer projects out of it": OrgRight.MANAGE,
}
PROJECT = {
    "see everything but passwords": Right.READ,
    "see passwords and connection strings": Right.CONNECT,
    "change it and all that is in it": Right.WRITE,
    "share it, give members a role on it": Right.SHARE,
    "delete and recover it": Right.DELETE,
}


def _table(heading: str) -> dict[str, list[str]]:
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)
    return {first: rest for first, *rest in (line.split(" | ") for line in lines)}


def test_the_page_has_a_row_for_every_right() -> None:
    assert set(ORGANIZATION.values()) == set(OrgRight)
    assert set(PROJECT.values()) == set(rights.LEAST)


def test_the_page_says_what_roles_may() -> None:
    table = _table("Roles in an organization")
    *roles, last = table.pop("may")
    assert (roles, last) == ([role.value for role in MemberRole], "organization key")
    levels = table.pop("level on each of its projects")
    assert levels == [rights.USUAL[role].name if rights.USUAL[role] else "no" for role in MemberRole] + ["ADMIN"]
    said = {ORGANIZATION[what]: [cell == "yes" for cell in cells] for what, cells in table.items()}
    assert said == {
        right: [*(role in rights.ROLES[right] for role in MemberRole), right in rights.ORGANIZATION_KEY]
        for right in OrgRight
    }


def test_the_page_says_what_levels_allow() -> None:
    table = _table("Levels on a project")
    assert table.pop("may") == [level.name for level in Level if level]
    said = {PROJECT[what]: [cell == "yes" for cell in cells] for what, cells in table.items()}
    assert said == {
        right: [rights.allows(right, level, None) for level in Level if level] for right in PROJECT.values()
    }


@pytest.mark.parametrize("right", Right)
def test_without_a_level_nothing_is_allowed(right: Right) -> None:
    assert not any(rights.allows(right, Level.NONE, role) for role in (None, *MemberRole))


def test_a_role_on_a_project_stands_in_place_of_the_usual_level_but_of_no_admins() -> None:
    assert rights.level(MemberRole.MEMBER, ProjectRole.VIEWER, shared=False) is Level.VIEWER
    assert rights.level(MemberRole.COLLABORATOR, ProjectRole.ADMIN, shared=False) is Level.ADMIN
    assert rights.level(MemberRole.ADMIN, ProjectRole.VIEWER, shared=False) is Level.ADMIN
    assert rights.level(None, ProjectRole.ADMIN, shared=False) is Level.NONE  # left over from a member who left


def test_of_permission_and_role_the_higher_counts() -> None:
    assert rights.level(None, None, shared=True) is Level.EDITOR
    assert rights.level(MemberRole.VIEWER, None, shared=True) is Level.EDITOR
    assert rights.level(MemberRole.COLLABORATOR, ProjectRole.ADMIN, shared=True) is Level.ADMIN


def test_people_are_seen_from_inside_and_projects_leave_by_admins() -> None:
    assert rights.allows(Right.SEE_PEOPLE, Level.VIEWER, MemberRole.VIEWER)
    assert not rights.allows(Right.SEE_PEOPLE, Level.EDITOR, None)
    assert rights.allows(Right.SEE_PEOPLE, Level.ADMIN, MemberRole.COLLABORATOR)
    assert not rights.allows(Right.TRANSFER, Level.ADMIN, MemberRole.COLLABORATOR)
    assert rights.allows(Right.TRANSFER, Level.ADMIN, MemberRole.ADMIN)

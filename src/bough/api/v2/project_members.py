"""Members of a project's organization: what each may do with the project; give them a role on it, or take it."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from bough.api.given import DeskGiven, OnceRoute, PartsGiven, PeopledProject, SharableProject
from bough.api.ordered_cursors import cursor_of, place_of
from bough.api.shapes import Body, Text, View, show
from bough.control.project_members import GrantSource, ProjectMember, ProjectMembers, RoleChange, on_project
from bough.domain.organization import MemberRole
from bough.domain.rights import Level, ProjectRole
from bough.ids import MemberId
from bough.store.members import MemberOrder

router = APIRouter(tags=["Project"], route_class=OnceRoute)

PLACE = "/projects/{project_id}/members"
ROLE = f"{PLACE}/{{member_id}}/role"
MOST = 500
MemberName = Annotated[UUID, Path(alias="member_id")]
LevelName = Literal["VIEWER", "EDITOR", "ADMIN"]
_NAMES: dict[Level, LevelName] = {Level.VIEWER: "VIEWER", Level.EDITOR: "EDITOR", Level.ADMIN: "ADMIN"}
_ORDER = MemberOrder(by="joined_at", falls=False)


class ProjectMemberRole(Body):
    role: ProjectRole


class Standing(View):
    member_id: str
    user_id: str
    email: str
    name: str
    org_role: MemberRole
    project_role: ProjectRole | None
    org_default_project_permission: LevelName | None
    explicit_project_permission: LevelName | None
    effective_project_permission: LevelName | None


class ProjectMemberView(Standing):
    grant_source: GrantSource

    @classmethod
    def of(cls, member: ProjectMember) -> "ProjectMemberView":
        return cls(**_standing(member), grant_source=member.source)


class ProjectMemberPagination(View):
    next: str


class ProjectMembersResponse(View):
    project_members: list[ProjectMemberView]
    pagination: ProjectMemberPagination | None


class ProjectMemberRoleResponse(Standing):
    project_id: str
    credential_rotation_recommended: bool

    @classmethod
    def of(cls, project_id: str, change: RoleChange) -> "ProjectMemberRoleResponse":
        return cls(
            **_standing(change.after),
            project_id=project_id,
            credential_rotation_recommended=change.leaves_passwords_known,
        )


def _standing(member: ProjectMember) -> dict[str, Any]:
    return {
        "member_id": member.seen.member.id,
        "user_id": member.seen.user.id,
        "email": member.seen.user.email,
        "name": member.seen.user.name,
        "org_role": member.role,
        "project_role": member.given,
        "org_default_project_permission": _NAMES.get(member.usual),
        "explicit_project_permission": _NAMES[member.given.level] if member.given else None,
        "effective_project_permission": _NAMES.get(member.effective),
    }


@router.get(PLACE, response_model=ProjectMembersResponse)
async def list_project_members(
    project: PeopledProject,
    given: PartsGiven,
    cursor: Annotated[Text | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> Response:
    """All members of the project's organization, the oldest first, with what each may do with the project."""
    after = place_of(cursor, _ORDER)
    async with given.store.read() as rows:
        found, more = await rows.members.page(project.org_id, _ORDER, limit=limit, after=after)
        members = await on_project(rows, project.id, found)
    return show(
        ProjectMembersResponse(
            project_members=[ProjectMemberView.of(member) for member in members],
            pagination=ProjectMemberPagination(next=cursor_of(more, _ORDER)) if more else None,
        )
    )


@router.put(ROLE, response_model=ProjectMemberRoleResponse)
async def set_project_member_role(
    project: SharableProject,
    member_id: MemberName,
    body: ProjectMemberRole,
    desk: DeskGiven,
    confirm_self_demotion: Annotated[bool, Query()] = False,
) -> Response:
    """Give a member a role on this project, in place of what their role in the organization gives."""
    unless = None if confirm_self_demotion else "confirm_self_demotion"
    change = await ProjectMembers(desk).set_role(project, MemberId(member_id), body.role, unless=unless)
    return show(ProjectMemberRoleResponse.of(project.id, change))


@router.delete(ROLE, response_model=ProjectMemberRoleResponse)
async def remove_project_member_role(
    project: SharableProject,
    member_id: MemberName,
    desk: DeskGiven,
    confirm_self_lockout: Annotated[bool, Query()] = False,
) -> Response:
    """Take a member's role on this project away: what their role in the organization gives counts again."""
    unless = None if confirm_self_lockout else "confirm_self_lockout"
    change = await ProjectMembers(desk).set_role(project, MemberId(member_id), None, unless=unless)
    return show(ProjectMemberRoleResponse.of(project.id, change))

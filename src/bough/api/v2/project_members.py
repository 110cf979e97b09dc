"""Roles of an organization's members on a project: list, set, remove."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from bough.api.dependencies import ContextDep, IdempotentRoute, MembersReadableProject, ServicesDep, SharableProject
from bough.api.paging import decode_sort_cursor, encode_sort_cursor
from bough.api.schemas import Body, Text, View, to_response
from bough.control.projects.members import (
    GrantSource,
    ProjectMember,
    RoleChange,
    load_project_members,
    set_project_role,
)
from bough.domain.organization import MemberRole
from bough.domain.rights import AccessLevel, ProjectRole
from bough.ids import MemberId
from bough.store.members import MemberSortOrder

router = APIRouter(tags=["Project"], route_class=IdempotentRoute)

COLLECTION_PATH = "/projects/{project_id}/members"
ROLE_PATH = f"{COLLECTION_PATH}/{{member_id}}/role"
MAX_PAGE_SIZE = 500
MemberIdPath = Annotated[UUID, Path(alias="member_id")]
LevelName = Literal["VIEWER", "EDITOR", "ADMIN"]
_LEVEL_NAMES: dict[AccessLevel, LevelName] = {
    AccessLevel.VIEWER: "VIEWER",
    AccessLevel.EDITOR: "EDITOR",
    AccessLevel.ADMIN: "ADMIN",
}
_ORDER = MemberSortOrder(by="joined_at", is_descending=False)


class ProjectMemberRole(Body):
    role: ProjectRole


class ProjectMemberFields(View):
    member_id: str
    user_id: str
    email: str
    name: str
    org_role: MemberRole
    project_role: ProjectRole | None
    org_default_project_permission: LevelName | None
    explicit_project_permission: LevelName | None
    effective_project_permission: LevelName | None


class ProjectMemberView(ProjectMemberFields):
    grant_source: GrantSource

    @classmethod
    def of(cls, member: ProjectMember) -> "ProjectMemberView":
        return cls(**_member_fields(member), grant_source=member.source)


class ProjectMemberPagination(View):
    next: str


class ProjectMembersResponse(View):
    project_members: list[ProjectMemberView]
    pagination: ProjectMemberPagination | None


class ProjectMemberRoleResponse(ProjectMemberFields):
    project_id: str
    credential_rotation_recommended: bool

    @classmethod
    def of(cls, project_id: str, change: RoleChange) -> "ProjectMemberRoleResponse":
        return cls(
            **_member_fields(change.after),
            project_id=project_id,
            credential_rotation_recommended=change.leaves_passwords_known,
        )


def _member_fields(member: ProjectMember) -> dict[str, Any]:
    return {
        "member_id": member.identity.member.id,
        "user_id": member.identity.user.id,
        "email": member.identity.user.email,
        "name": member.identity.user.name,
        "org_role": member.role,
        "project_role": member.explicit_role,
        "org_default_project_permission": _LEVEL_NAMES.get(member.default_level),
        "explicit_project_permission": _LEVEL_NAMES[member.explicit_role.level] if member.explicit_role else None,
        "effective_project_permission": _LEVEL_NAMES.get(member.effective_level),
    }


@router.get(COLLECTION_PATH, response_model=ProjectMembersResponse)
async def list_project_members(
    project: MembersReadableProject,
    services: ServicesDep,
    cursor: Annotated[Text | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 100,
) -> Response:
    """List all members of the project's organization with their access to the project, oldest first."""
    after = decode_sort_cursor(cursor, _ORDER)
    async with services.store.read() as rows:
        entries, more = await rows.members.page(project.org_id, _ORDER, limit=limit, after=after)
        members = await load_project_members(rows, project.id, entries)
    return to_response(
        ProjectMembersResponse(
            project_members=[ProjectMemberView.of(member) for member in members],
            pagination=ProjectMemberPagination(next=encode_sort_cursor(more, _ORDER)) if more else None,
        )
    )


@router.put(ROLE_PATH, response_model=ProjectMemberRoleResponse)
async def set_project_member_role(
    project: SharableProject,
    member_id: MemberIdPath,
    body: ProjectMemberRole,
    context: ContextDep,
    confirm_self_demotion: Annotated[bool, Query()] = False,
) -> Response:
    """Set a member's role on this project. It replaces the access that the role in the organization gives."""
    confirmation = None if confirm_self_demotion else "confirm_self_demotion"
    change = await set_project_role(
        context, project, MemberId(member_id), body.role, confirmation_parameter=confirmation
    )
    return to_response(ProjectMemberRoleResponse.of(project.id, change))


@router.delete(ROLE_PATH, response_model=ProjectMemberRoleResponse)
async def remove_project_member_role(
    project: SharableProject,
    member_id: MemberIdPath,
    context: ContextDep,
    confirm_self_lockout: Annotated[bool, Query()] = False,
) -> Response:
    """Remove a member's role on this project. The role in the organization applies again."""
    confirmation = None if confirm_self_lockout else "confirm_self_lockout"
    change = await set_project_role(context, project, MemberId(member_id), None, confirmation_parameter=confirmation)
    return to_response(ProjectMemberRoleResponse.of(project.id, change))

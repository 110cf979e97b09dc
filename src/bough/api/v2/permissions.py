"""Permissions: the e-mail addresses that a project is shared with."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response
from pydantic import Field

from bough.api.dependencies import ContextDep, IdempotentRoute, MembersReadableProject, ServicesDep, SharableProject
from bough.api.schemas import Body, View, to_response
from bough.control.projects.sharing import grant_permission, revoke_permission
from bough.domain.permission import Permission
from bough.ids import PermissionId

router = APIRouter(tags=["Project"], route_class=IdempotentRoute)

COLLECTION_PATH = "/projects/{project_id}/permissions"


class PermissionGrant(Body):
    email: Annotated[str, Field(min_length=1, max_length=256)]


class PermissionView(View):
    id: str
    granted_to_email: str
    granted_at: datetime
    revoked_at: datetime | None

    @classmethod
    def of(cls, permission: Permission) -> "PermissionView":
        return cls(
            id=permission.id,
            granted_to_email=permission.email,
            granted_at=permission.granted_at,
            revoked_at=permission.revoked_at,
        )


class PermissionsResponse(View):
    project_permissions: list[PermissionView]


@router.get(COLLECTION_PATH, response_model=PermissionsResponse)
async def list_project_permissions(project: MembersReadableProject, services: ServicesDep) -> Response:
    """List the addresses that the project is shared with, oldest first."""
    async with services.store.read() as rows:
        permissions = await rows.grants.list_permissions(project.id)
    return to_response(PermissionsResponse(project_permissions=[PermissionView.of(each) for each in permissions]))


@router.post(COLLECTION_PATH, response_model=PermissionView)
async def grant_permission_to_project(project: SharableProject, body: PermissionGrant, context: ContextDep) -> Response:
    """Share the project with an e-mail address, which receives an e-mail. The account with this address can change the
    project.
    """
    return to_response(PermissionView.of(await grant_permission(context, project, body.email)))


@router.delete(f"{COLLECTION_PATH}/{{permission_id}}", response_model=PermissionView)
async def revoke_permission_from_project(
    project: SharableProject, permission_id: Annotated[UUID, Path()], context: ContextDep
) -> Response:
    """Stop sharing the project with an address. This takes effect immediately."""
    return to_response(PermissionView.of(await revoke_permission(context, project, PermissionId(permission_id))))

"""Permissions: with whom a project is shared, by e-mail address."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response
from pydantic import Field

from bough.api.given import DeskGiven, OnceRoute, PartsGiven, PeopledProject, SharableProject
from bough.api.shapes import Body, View, show
from bough.control.sharing import Sharing
from bough.domain.permission import Permission
from bough.ids import PermissionId

router = APIRouter(tags=["Project"], route_class=OnceRoute)

PLACE = "/projects/{project_id}/permissions"


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


@router.get(PLACE, response_model=PermissionsResponse)
async def list_project_permissions(project: PeopledProject, given: PartsGiven) -> Response:
    """The addresses that the project is shared with, in the order in which they came."""
    async with given.store.read() as rows:
        found = await rows.grants.permissions_on(project.id)
    return show(PermissionsResponse(project_permissions=[PermissionView.of(each) for each in found]))


@router.post(PLACE, response_model=PermissionView)
async def grant_permission_to_project(project: SharableProject, body: PermissionGrant, desk: DeskGiven) -> Response:
    """Share the project with an address, which gets a mail. Whoever has an account with it may change the project."""
    return show(PermissionView.of(await Sharing(desk).grant(project, body.email)))


@router.delete(f"{PLACE}/{{permission_id}}", response_model=PermissionView)
async def revoke_permission_from_project(
    project: SharableProject, permission_id: Annotated[UUID, Path()], desk: DeskGiven
) -> Response:
    """Stop sharing the project with an address: it counts at once."""
    return show(PermissionView.of(await Sharing(desk).revoke(project, PermissionId(permission_id))))

"""Roles: list, create, get, delete; reveal and reset a password."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Response
from pydantic import AfterValidator

from bough.access import lookup
from bough.api.dependencies import (
    ConnectableProject,
    ContextDep,
    IdempotentRoute,
    ReadableProject,
    ServicesDep,
    WritableProject,
)
from bough.api.path_convertors import rest_of_path
from bough.api.schemas import Body, BranchIdPath, Flag, PathText, View, to_response
from bough.api.v2.operations import OperationView
from bough.control.branches.roles import create_role, delete_role, reset_role_password, reveal_role_password
from bough.domain.operation import Operation
from bough.domain.role import Role
from bough.errors import NotFound
from bough.ids import BranchId

router = APIRouter(tags=["Branch"], route_class=IdempotentRoute)

COLLECTION_PATH = "/projects/{project_id}/branches/{branch_id}/roles"
ITEM_PATH = f"{COLLECTION_PATH}/{rest_of_path('role_name')}"


def _check_no_action(name: str) -> str:
    """Reject a path that ends with an action for another method."""
    if name.endswith(("/reveal_password", "/reset_password")):
        raise HTTPException(405)
    return name


RoleName = Annotated[PathText, Path(alias="role_name"), AfterValidator(_check_no_action)]


class NewRoleBody(Body):
    name: str
    no_login: Flag = False


class RoleCreate(Body):
    role: NewRoleBody


class RoleView(View):
    branch_id: str
    name: str
    password: str | None
    protected: bool
    authentication_method: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, role: Role, password: str | None = None) -> "RoleView":
        """Only responses that create the role or reset its password contain the password."""
        return cls(
            branch_id=role.branch_id,
            name=role.name,
            password=password,
            protected=role.is_protected,
            authentication_method="password" if role.can_login else "no_login",
            created_at=role.created_at,
            updated_at=role.updated_at,
        )


class RolesResponse(View):
    roles: list[RoleView]


class RoleResponse(View):
    role: RoleView


class RoleOperations(View):
    role: RoleView
    operations: list[OperationView]


class RolePassword(View):
    password: str


@router.get(COLLECTION_PATH, response_model=RolesResponse)
async def list_project_branch_roles(
    project: ReadableProject, branch_id: BranchIdPath, services: ServicesDep
) -> Response:
    """List the branch's roles by name. A role that was created with SQL appears after a few seconds."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        roles = await rows.roles.list_in_branch(branch.id)
    return to_response(RolesResponse(roles=[RoleView.of(role) for role in roles]))


@router.post(COLLECTION_PATH, response_model=RoleOperations, status_code=201)
async def create_project_branch_role(
    project: WritableProject, branch_id: BranchIdPath, body: RoleCreate, context: ContextDep
) -> Response:
    """Create a role. The response contains its password. With `no_login`, the role is a group without a password."""
    requested = body.role
    role, password, operations = await create_role(
        context, project, BranchId(branch_id), requested.name, can_login=not requested.no_login
    )
    return _build_response(role, password, operations, status=201)


@router.get(ITEM_PATH + "/reveal_password", response_model=RolePassword)
async def get_project_branch_role_password(
    project: ConnectableProject, branch_id: BranchIdPath, role_name: RoleName, context: ContextDep
) -> Response:
    """Get the role's password, if the project stores passwords."""
    return to_response(
        RolePassword(password=await reveal_role_password(context, project, BranchId(branch_id), role_name))
    )


@router.post(ITEM_PATH + "/reset_password", response_model=RoleOperations)
async def reset_project_branch_role_password(
    project: WritableProject, branch_id: BranchIdPath, role_name: RoleName, context: ContextDep
) -> Response:
    """Reset the role's password. The response contains the new one. The old password stops working immediately."""
    return _build_response(*await reset_role_password(context, project, BranchId(branch_id), role_name))


@router.get(ITEM_PATH, response_model=RoleResponse)
async def get_project_branch_role(
    project: ReadableProject, branch_id: BranchIdPath, role_name: RoleName, services: ServicesDep
) -> Response:
    """Get a role, without its password."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        role = await rows.roles.get(branch.id, role_name)
    if role is None:
        raise NotFound.resource("role")
    return to_response(RoleResponse(role=RoleView.of(role)))


@router.delete(ITEM_PATH, response_model=RoleOperations, responses={204: {"description": "The role does not exist"}})
async def delete_project_branch_role(
    project: WritableProject, branch_id: BranchIdPath, role_name: RoleName, context: ContextDep
) -> Response:
    """Delete a role. Its objects in a database are reassigned to the owner of the database."""
    deleted = await delete_role(context, project, BranchId(branch_id), role_name)
    return Response(status_code=204) if deleted is None else _build_response(deleted[0], None, deleted[1])


def _build_response(role: Role, password: str | None, operations: list[Operation], status: int = 200) -> Response:
    views = [OperationView.of(operation) for operation in operations]
    return to_response(RoleOperations(role=RoleView.of(role, password), operations=views), status)

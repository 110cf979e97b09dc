"""Roles: list, create, get, delete; show and reset a password."""

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


def _without_verb(name: str) -> str:
    """What stands behind a name is a verb, and not for this method."""
    if name.endswith(("/reveal_password", "/reset_password")):
        raise HTTPException(405)
    return name


RoleName = Annotated[PathText, Path(alias="role_name"), AfterValidator(_without_verb)]


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
        """With its password only in the answer that made or reset it."""
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
    """The branch's roles by name; one that was made with SQL is here some seconds later."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        found = await rows.roles.list_in_branch(branch.id)
    return to_response(RolesResponse(roles=[RoleView.of(role) for role in found]))


@router.post(COLLECTION_PATH, response_model=RoleOperations, status_code=201)
async def create_project_branch_role(
    project: WritableProject, branch_id: BranchIdPath, body: RoleCreate, context: ContextDep
) -> Response:
    """A role with a password, which is in the answer; with `no_login` a group that others can be members of."""
    asked = body.role
    role, password, operations = await create_role(
        context, project, BranchId(branch_id), asked.name, can_login=not asked.no_login
    )
    return _shown(role, password, operations, status=201)


@router.get(ITEM_PATH + "/reveal_password", response_model=RolePassword)
async def get_project_branch_role_password(
    project: ConnectableProject, branch_id: BranchIdPath, role_name: RoleName, context: ContextDep
) -> Response:
    """The role's password, where the project stores them."""
    return to_response(
        RolePassword(password=await reveal_role_password(context, project, BranchId(branch_id), role_name))
    )


@router.post(ITEM_PATH + "/reset_password", response_model=RoleOperations)
async def reset_project_branch_role_password(
    project: WritableProject, branch_id: BranchIdPath, role_name: RoleName, context: ContextDep
) -> Response:
    """Give the role a new password, which is in the answer. The old one stops working at once."""
    return _shown(*await reset_role_password(context, project, BranchId(branch_id), role_name))


@router.get(ITEM_PATH, response_model=RoleResponse)
async def get_project_branch_role(
    project: ReadableProject, branch_id: BranchIdPath, role_name: RoleName, services: ServicesDep
) -> Response:
    """One role, without its password."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        role = await rows.roles.get(branch.id, role_name)
    if role is None:
        raise NotFound.resource("role")
    return to_response(RoleResponse(role=RoleView.of(role)))


@router.delete(ITEM_PATH, response_model=RoleOperations, responses={204: {"description": "There is no such role"}})
async def delete_project_branch_role(
    project: WritableProject, branch_id: BranchIdPath, role_name: RoleName, context: ContextDep
) -> Response:
    """Delete a role. What it owned in a database belongs to the database's owner then."""
    gone = await delete_role(context, project, BranchId(branch_id), role_name)
    return Response(status_code=204) if gone is None else _shown(gone[0], None, gone[1])


def _shown(role: Role, password: str | None, operations: list[Operation], status: int = 200) -> Response:
    shown = [OperationView.of(operation) for operation in operations]
    return to_response(RoleOperations(role=RoleView.of(role, password), operations=shown), status)

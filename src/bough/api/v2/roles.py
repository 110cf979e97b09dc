"""Roles: list, create, get, delete; show and reset a password."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Response
from pydantic import AfterValidator

from bough.access import lookup
from bough.api.given import ConnectableProject, DeskGiven, OnceRoute, PartsGiven, ReadableProject, WritableProject
from bough.api.names import in_path
from bough.api.shapes import Body, BranchName, Flag, PathText, View, show
from bough.api.v2.operations import OperationView
from bough.control.roles import Roles
from bough.domain.operation import Operation
from bough.domain.role import Role
from bough.errors import NotFound
from bough.ids import BranchId

router = APIRouter(tags=["Branch"], route_class=OnceRoute)

PLACE = "/projects/{project_id}/branches/{branch_id}/roles"
ONE = f"{PLACE}/{in_path('role_name')}"


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


@router.get(PLACE, response_model=RolesResponse)
async def list_project_branch_roles(project: ReadableProject, branch_id: BranchName, given: PartsGiven) -> Response:
    """The branch's roles by name; one that was made with SQL is here some seconds later."""
    async with given.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        found = await rows.roles.of_branch(branch.id)
    return show(RolesResponse(roles=[RoleView.of(role) for role in found]))


@router.post(PLACE, response_model=RoleOperations, status_code=201)
async def create_project_branch_role(
    project: WritableProject, branch_id: BranchName, body: RoleCreate, desk: DeskGiven
) -> Response:
    """A role with a password, which is in the answer; with `no_login` a group that others can be members of."""
    asked = body.role
    role, password, operations = await Roles(desk).create(
        project, BranchId(branch_id), asked.name, can_login=not asked.no_login
    )
    return _shown(role, password, operations, status=201)


@router.get(ONE + "/reveal_password", response_model=RolePassword)
async def get_project_branch_role_password(
    project: ConnectableProject, branch_id: BranchName, role_name: RoleName, desk: DeskGiven
) -> Response:
    """The role's password, where the project stores them."""
    return show(RolePassword(password=await Roles(desk).password(project, BranchId(branch_id), role_name)))


@router.post(ONE + "/reset_password", response_model=RoleOperations)
async def reset_project_branch_role_password(
    project: WritableProject, branch_id: BranchName, role_name: RoleName, desk: DeskGiven
) -> Response:
    """Give the role a new password, which is in the answer. The old one stops working at once."""
    return _shown(*await Roles(desk).reset_password(project, BranchId(branch_id), role_name))


@router.get(ONE, response_model=RoleResponse)
async def get_project_branch_role(
    project: ReadableProject, branch_id: BranchName, role_name: RoleName, given: PartsGiven
) -> Response:
    """One role, without its password."""
    async with given.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        role = await rows.roles.get(branch.id, role_name)
    if role is None:
        raise NotFound.thing("role")
    return show(RoleResponse(role=RoleView.of(role)))


@router.delete(ONE, response_model=RoleOperations, responses={204: {"description": "There is no such role"}})
async def delete_project_branch_role(
    project: WritableProject, branch_id: BranchName, role_name: RoleName, desk: DeskGiven
) -> Response:
    """Delete a role. What it owned in a database belongs to the database's owner then."""
    gone = await Roles(desk).delete(project, BranchId(branch_id), role_name)
    return Response(status_code=204) if gone is None else _shown(gone[0], None, gone[1])


def _shown(role: Role, password: str | None, operations: list[Operation], status: int = 200) -> Response:
    shown = [OperationView.of(operation) for operation in operations]
    return show(RoleOperations(role=RoleView.of(role, password), operations=shown), status)

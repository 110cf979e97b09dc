"""Databases: list, create, get, rename, give another owner, delete."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Response

from bough.access import lookup
from bough.api.dependencies import ContextDep, IdempotentRoute, ReadableProject, ServicesDep, WritableProject
from bough.api.path_convertors import rest_of_path
from bough.api.schemas import Body, BranchIdPath, PathText, View, to_response
from bough.api.v2.operations import OperationView
from bough.control.branches.databases import create_database, delete_database, update_database
from bough.domain.database import Database
from bough.domain.operation import Operation
from bough.errors import NotFound
from bough.ids import BranchId

router = APIRouter(tags=["Branch"], route_class=IdempotentRoute)

COLLECTION_PATH = "/projects/{project_id}/branches/{branch_id}/databases"
ITEM_PATH = f"{COLLECTION_PATH}/{rest_of_path('database_name')}"

DatabaseName = Annotated[PathText, Path(alias="database_name")]


class NewDatabaseBody(Body):
    name: str
    owner_name: str


class DatabaseCreate(Body):
    database: NewDatabaseBody


class ChangedDatabaseBody(Body):
    name: str | None = None
    owner_name: str | None = None


class DatabaseUpdate(Body):
    database: ChangedDatabaseBody


class DatabaseView(View):
    id: int
    branch_id: str
    name: str
    owner_name: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, database: Database) -> "DatabaseView":
        return cls(
            id=database.id,
            branch_id=database.branch_id,
            name=database.name,
            owner_name=database.owner_name,
            created_at=database.created_at,
            updated_at=database.updated_at,
        )


class DatabasesResponse(View):
    databases: list[DatabaseView]


class DatabaseResponse(View):
    database: DatabaseView


class DatabaseOperations(View):
    database: DatabaseView
    operations: list[OperationView]


@router.get(COLLECTION_PATH, response_model=DatabasesResponse)
async def list_project_branch_databases(
    project: ReadableProject, branch_id: BranchIdPath, services: ServicesDep
) -> Response:
    """The branch's databases, oldest first; one that was made with SQL is here some seconds later."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        found = await rows.databases.list_in_branch(branch.id)
    return to_response(DatabasesResponse(databases=[DatabaseView.of(database) for database in found]))


@router.post(COLLECTION_PATH, response_model=DatabaseOperations, status_code=201)
async def create_project_branch_database(
    project: WritableProject, branch_id: BranchIdPath, body: DatabaseCreate, context: ContextDep
) -> Response:
    """A database that belongs to a role of the branch."""
    asked = body.database
    made = await create_database(context, project, BranchId(branch_id), asked.name, asked.owner_name)
    return _shown(*made, status=201)


@router.get(ITEM_PATH, response_model=DatabaseResponse)
async def get_project_branch_database(
    project: ReadableProject, branch_id: BranchIdPath, database_name: DatabaseName, services: ServicesDep
) -> Response:
    """One database."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        database = await rows.databases.get(branch.id, database_name)
    if database is None:
        raise NotFound.resource("database")
    return to_response(DatabaseResponse(database=DatabaseView.of(database)))


@router.patch(ITEM_PATH, response_model=DatabaseOperations)
async def update_project_branch_database(
    project: WritableProject,
    branch_id: BranchIdPath,
    database_name: DatabaseName,
    body: DatabaseUpdate,
    context: ContextDep,
) -> Response:
    """Rename a database, or give it another owner. A new name cuts off whoever is in it."""
    asked = body.database
    return _shown(
        *await update_database(
            context, project, BranchId(branch_id), database_name, new_name=asked.name, owner=asked.owner_name
        )
    )


@router.delete(
    ITEM_PATH, response_model=DatabaseOperations, responses={204: {"description": "There is no such database"}}
)
async def delete_project_branch_database(
    project: WritableProject, branch_id: BranchIdPath, database_name: DatabaseName, context: ContextDep
) -> Response:
    """Delete a database, also while clients are connected to it."""
    gone = await delete_database(context, project, BranchId(branch_id), database_name)
    return Response(status_code=204) if gone is None else _shown(*gone)


def _shown(database: Database, operations: list[Operation], status: int = 200) -> Response:
    shown = [OperationView.of(operation) for operation in operations]
    return to_response(DatabaseOperations(database=DatabaseView.of(database), operations=shown), status)

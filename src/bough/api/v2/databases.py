"""Databases: list, create, get, rename, change the owner, delete."""

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
    """List the branch's databases, oldest first. A database that was created with SQL appears after a few seconds."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        databases = await rows.databases.list_in_branch(branch.id)
    return to_response(DatabasesResponse(databases=[DatabaseView.of(database) for database in databases]))


@router.post(COLLECTION_PATH, response_model=DatabaseOperations, status_code=201)
async def create_project_branch_database(
    project: WritableProject, branch_id: BranchIdPath, body: DatabaseCreate, context: ContextDep
) -> Response:
    """Create a database that is owned by a role of the branch."""
    requested = body.database
    created = await create_database(context, project, BranchId(branch_id), requested.name, requested.owner_name)
    return _build_response(*created, status=201)


@router.get(ITEM_PATH, response_model=DatabaseResponse)
async def get_project_branch_database(
    project: ReadableProject, branch_id: BranchIdPath, database_name: DatabaseName, services: ServicesDep
) -> Response:
    """Get a database."""
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
    """Rename a database or change its owner. Renaming closes its connections."""
    requested = body.database
    return _build_response(
        *await update_database(
            context, project, BranchId(branch_id), database_name, new_name=requested.name, owner=requested.owner_name
        )
    )


@router.delete(
    ITEM_PATH, response_model=DatabaseOperations, responses={204: {"description": "The database does not exist"}}
)
async def delete_project_branch_database(
    project: WritableProject, branch_id: BranchIdPath, database_name: DatabaseName, context: ContextDep
) -> Response:
    """Delete a database, even if clients are connected to it."""
    deleted = await delete_database(context, project, BranchId(branch_id), database_name)
    return Response(status_code=204) if deleted is None else _build_response(*deleted)


def _build_response(database: Database, operations: list[Operation], status: int = 200) -> Response:
    views = [OperationView.of(operation) for operation in operations]
    return to_response(DatabaseOperations(database=DatabaseView.of(database), operations=views), status)

"""Databases: list, create, get, rename, give another owner, delete."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Response

from bough.access import lookup
from bough.api.given import DeskGiven, OnceRoute, PartsGiven, ReadableProject, WritableProject
from bough.api.names import in_path
from bough.api.shapes import Body, BranchName, PathText, View, show
from bough.api.v2.operations import OperationView
from bough.control.databases import Databases
from bough.domain.database import Database
from bough.domain.operation import Operation
from bough.errors import NotFound
from bough.ids import BranchId

router = APIRouter(tags=["Branch"], route_class=OnceRoute)

PLACE = "/projects/{project_id}/branches/{branch_id}/databases"
ONE = f"{PLACE}/{in_path('database_name')}"

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


@router.get(PLACE, response_model=DatabasesResponse)
async def list_project_branch_databases(project: ReadableProject, branch_id: BranchName, given: PartsGiven) -> Response:
    """The branch's databases, oldest first; one that was made with SQL is here some seconds later."""
    async with given.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        found = await rows.databases.of_branch(branch.id)
    return show(DatabasesResponse(databases=[DatabaseView.of(database) for database in found]))


@router.post(PLACE, response_model=DatabaseOperations, status_code=201)
async def create_project_branch_database(
    project: WritableProject, branch_id: BranchName, body: DatabaseCreate, desk: DeskGiven
) -> Response:
    """A database that belongs to a role of the branch."""
    asked = body.database
    made = await Databases(desk).create(project, BranchId(branch_id), asked.name, asked.owner_name)
    return _shown(*made, status=201)


@router.get(ONE, response_model=DatabaseResponse)
async def get_project_branch_database(
    project: ReadableProject, branch_id: BranchName, database_name: DatabaseName, given: PartsGiven
) -> Response:
    """One database."""
    async with given.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        database = await rows.databases.get(branch.id, database_name)
    if database is None:
        raise NotFound.thing("database")
    return show(DatabaseResponse(database=DatabaseView.of(database)))


@router.patch(ONE, response_model=DatabaseOperations)
async def update_project_branch_database(
    project: WritableProject, branch_id: BranchName, database_name: DatabaseName, body: DatabaseUpdate, desk: DeskGiven
) -> Response:
    """Rename a database, or give it another owner. A new name cuts off whoever is in it."""
    asked = body.database
    return _shown(
        *await Databases(desk).change(
            project, BranchId(branch_id), database_name, new_name=asked.name, owner=asked.owner_name
        )
    )


@router.delete(ONE, response_model=DatabaseOperations, responses={204: {"description": "There is no such database"}})
async def delete_project_branch_database(
    project: WritableProject, branch_id: BranchName, database_name: DatabaseName, desk: DeskGiven
) -> Response:
    """Delete a database, also while clients are connected to it."""
    gone = await Databases(desk).delete(project, BranchId(branch_id), database_name)
    return Response(status_code=204) if gone is None else _shown(*gone)


def _shown(database: Database, operations: list[Operation], status: int = 200) -> Response:
    shown = [OperationView.of(operation) for operation in operations]
    return show(DatabaseOperations(database=DatabaseView.of(database), operations=shown), status)

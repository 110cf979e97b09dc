"""Branches: list, count, create, get, change, delete, make one the default."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from bough.access import lookup
from bough.api.dependencies import ContextDep, IdempotentRoute, ReadableProject, ServicesDep, WritableProject
from bough.api.paging import decode_sort_cursor, encode_sort_cursor
from bough.api.schemas import BranchIdPath, Text, View, to_response
from bough.api.v2.branch_bodies import BranchCreate, BranchUpdate
from bough.api.v2.branch_views import Annotation, BranchView
from bough.api.v2.connection_uris import ConnectionDetails
from bough.api.v2.databases import DatabaseView
from bough.api.v2.endpoints import EndpointsResponse, EndpointView
from bough.api.v2.operations import OperationView
from bough.api.v2.roles import RoleView
from bough.control.branches.branches import (
    CreatedBranch,
    create_branch,
    delete_branch,
    set_default_branch,
    update_branch,
)
from bough.control.context import Context
from bough.domain.branch import Branch
from bough.domain.endpoint import EndpointType
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.errors import NotFound
from bough.ids import BranchId
from bough.store.branch_pages import BranchSortOrder

router = APIRouter(tags=["Branch"], route_class=IdempotentRoute)

MAX_PAGE_SIZE = 10_000


class BranchPagination(View):
    next: str | None
    sort_by: str
    sort_order: str


class BranchesResponse(View):
    branches: list[BranchView]
    annotations: dict[str, Annotation]
    pagination: BranchPagination


class BranchCount(View):
    count: int


class BranchResponse(View):
    branch: BranchView
    annotation: Annotation


class BranchOperations(View):
    branch: BranchView
    operations: list[OperationView]


class BranchCreated(View):
    branch: BranchView
    endpoints: list[EndpointView]
    operations: list[OperationView]
    roles: list[RoleView]
    databases: list[DatabaseView]
    connection_uris: list[ConnectionDetails] | None

    @classmethod
    def of(cls, made: CreatedBranch, project: Project, context: Context) -> "BranchCreated":
        passwords = made.inherited.passwords
        by_type = sorted(made.endpoints, key=lambda each: each.type is not EndpointType.READ_WRITE)
        return cls(
            branch=BranchView.new(made.branch, made.creator_name),
            endpoints=[EndpointView.of(each, project.region_id, context.services.hosts) for each in made.endpoints],
            operations=[OperationView.of(operation) for operation in made.operations],
            roles=[RoleView.of(role, passwords.get(role.name)) for role in made.inherited.roles],
            databases=[DatabaseView.of(database) for database in made.inherited.databases],
            connection_uris=[
                ConnectionDetails.of(
                    by_type[0],  # where one can write, if there is such a one
                    project.region_id,
                    context.services.hosts,
                    role=database.owner_name,
                    password=passwords[database.owner_name],
                    database=database.name,
                )
                for database in made.inherited.databases
                if made.endpoints and database.owner_name in passwords
            ]
            or None,
        )


@router.get("/projects/{project_id}/branches", response_model=BranchesResponse)
async def list_project_branches(
    project: ReadableProject,
    services: ServicesDep,
    search: Annotated[Text, Query(max_length=256)] = "",
    sort_by: Annotated[Literal["name", "created_at", "updated_at"], Query()] = "updated_at",
    cursor: Annotated[Text | None, Query()] = None,
    sort_order: Annotated[Literal["asc", "desc"], Query()] = "desc",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = MAX_PAGE_SIZE,
    include_deleted: Annotated[bool, Query()] = False,
) -> Response:
    """The project's branches; with `include_deleted` those that were deleted too."""
    order = BranchSortOrder(by=sort_by, is_descending=sort_order == "desc")
    after = decode_sort_cursor(cursor, order)
    async with services.store.read(slow=limit > 100) as rows:
        found, more = await rows.branch_pages.page(
            project.id, order, search=search, include_deleted=include_deleted, limit=limit, after=after
        )
    return to_response(
        BranchesResponse(
            branches=[BranchView.of(seen) for seen in found],
            annotations={seen.branch.id: Annotation.of(seen.branch) for seen in found if seen.branch.annotations},
            pagination=BranchPagination(
                next=encode_sort_cursor(more, order) if more else None, sort_by=sort_by, sort_order=sort_order
            ),
        )
    )


@router.get("/projects/{project_id}/branches/count", response_model=BranchCount)
async def count_project_branches(
    project: ReadableProject, services: ServicesDep, search: Annotated[Text, Query(max_length=256)] = ""
) -> Response:
    """How many branches the project has."""
    async with services.store.read() as rows:
        return to_response(BranchCount(count=await rows.branch_pages.count(project.id, search)))


@router.post("/projects/{project_id}/branches", response_model=BranchCreated, status_code=201)
async def create_project_branch(
    project: WritableProject, context: ContextDep, body: BranchCreate | None = None
) -> Response:
    """A branch with all that its parent has committed; without a parent, of the default branch. It has endpoints
    only when some are asked for.
    """
    made = await create_branch(context, project, (body or BranchCreate()).to_new_branch())
    return to_response(BranchCreated.of(made, project, context), 201)


@router.get("/projects/{project_id}/branches/{branch_id}", response_model=BranchResponse)
async def get_project_branch(project: ReadableProject, branch_id: BranchIdPath, services: ServicesDep) -> Response:
    """One branch; `current_state` is `ready` when its data is there."""
    async with services.store.read() as rows:
        seen = await rows.branch_pages.get(project.id, BranchId(branch_id))
    if seen is None or seen.branch.deleted_at is not None:
        raise NotFound.resource("branch")
    return to_response(BranchResponse(branch=BranchView.of(seen), annotation=Annotation.of(seen.branch)))


@router.patch("/projects/{project_id}/branches/{branch_id}", response_model=BranchOperations)
async def update_project_branch(
    project: WritableProject, branch_id: BranchIdPath, body: BranchUpdate, context: ContextDep
) -> Response:
    """Change a branch's name, its protection or when it expires; `expires_at: null` means never."""
    return await build_branch_response(
        context, *await update_branch(context, project, BranchId(branch_id), body.to_branch_change())
    )


@router.delete(
    "/projects/{project_id}/branches/{branch_id}",
    response_model=BranchOperations,
    responses={204: {"description": "It was deleted already"}},
)
async def delete_project_branch(project: WritableProject, branch_id: BranchIdPath, context: ContextDep) -> Response:
    """Delete a branch and its endpoints. For a day (a setting) it can be recovered; then its data is gone."""
    gone = await delete_branch(context, project, BranchId(branch_id))
    return Response(status_code=204) if gone is None else await build_branch_response(context, *gone)


@router.post("/projects/{project_id}/branches/{branch_id}/set_as_default", response_model=BranchOperations)
async def set_default_project_branch(
    project: WritableProject, branch_id: BranchIdPath, context: ContextDep
) -> Response:
    """Make it the branch that is meant when none is named."""
    return await build_branch_response(context, *await set_default_branch(context, project, BranchId(branch_id)))


@router.post(
    "/projects/{project_id}/branches/{branch_id}/set_as_primary",
    response_model=BranchOperations,
    deprecated=True,
)
async def set_primary_project_branch(
    project: WritableProject, branch_id: BranchIdPath, context: ContextDep
) -> Response:
    """The older name of `set_as_default`."""
    return await build_branch_response(context, *await set_default_branch(context, project, BranchId(branch_id)))


@router.get("/projects/{project_id}/branches/{branch_id}/endpoints", response_model=EndpointsResponse)
async def list_project_branch_endpoints(
    project: ReadableProject, branch_id: BranchIdPath, services: ServicesDep
) -> Response:
    """The branch's endpoints, oldest first."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        found = await rows.endpoints.list_in_branch(branch.id)
    shown = [EndpointView.of(endpoint, project.region_id, services.hosts) for endpoint in found]
    return to_response(EndpointsResponse(endpoints=shown))


async def build_branch_response(context: Context, branch: Branch, operations: list[Operation]) -> Response:
    async with context.services.store.read() as rows:
        seen = await rows.branch_pages.get(branch.project_id, branch.id)
    view = BranchView.new(branch, None) if seen is None else BranchView.with_usage(branch, seen.usage, seen.creator)
    return to_response(BranchOperations(branch=view, operations=[OperationView.of(each) for each in operations]))

"""Branches: list, count, create, get, change, delete, set the default."""

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
    def of(cls, created: CreatedBranch, project: Project, context: Context) -> "BranchCreated":
        passwords = created.inherited.passwords
        by_type = sorted(created.endpoints, key=lambda each: each.type is not EndpointType.READ_WRITE)
        return cls(
            branch=BranchView.new(created.branch, created.creator_name),
            endpoints=[EndpointView.of(each, project.region_id, context.services.hosts) for each in created.endpoints],
            operations=[OperationView.of(operation) for operation in created.operations],
            roles=[RoleView.of(role, passwords.get(role.name)) for role in created.inherited.roles],
            databases=[DatabaseView.of(database) for database in created.inherited.databases],
            connection_uris=[
                ConnectionDetails.of(
                    by_type[0],  # the read-write endpoint, if there is one
                    project.region_id,
                    context.services.hosts,
                    role=database.owner_name,
                    password=passwords[database.owner_name],
                    database=database.name,
                )
                for database in created.inherited.databases
                if created.endpoints and database.owner_name in passwords
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
    """List the project's branches. With `include_deleted`, the list includes deleted branches."""
    order = BranchSortOrder(by=sort_by, is_descending=sort_order == "desc")
    after = decode_sort_cursor(cursor, order)
    async with services.store.read(slow=limit > 100) as rows:
        entries, more = await rows.branch_pages.page(
            project.id, order, search=search, include_deleted=include_deleted, limit=limit, after=after
        )
    return to_response(
        BranchesResponse(
            branches=[BranchView.of(entry) for entry in entries],
            annotations={each.branch.id: Annotation.of(each.branch) for each in entries if each.branch.annotations},
            pagination=BranchPagination(
                next=encode_sort_cursor(more, order) if more else None, sort_by=sort_by, sort_order=sort_order
            ),
        )
    )


@router.get("/projects/{project_id}/branches/count", response_model=BranchCount)
async def count_project_branches(
    project: ReadableProject, services: ServicesDep, search: Annotated[Text, Query(max_length=256)] = ""
) -> Response:
    """Count the project's branches."""
    async with services.store.read() as rows:
        return to_response(BranchCount(count=await rows.branch_pages.count(project.id, search)))


@router.post("/projects/{project_id}/branches", response_model=BranchCreated, status_code=201)
async def create_project_branch(
    project: WritableProject, context: ContextDep, body: BranchCreate | None = None
) -> Response:
    """Create a branch with the current data of its parent, by default of the default branch. It has no endpoints unless
    the request contains some.
    """
    created = await create_branch(context, project, (body or BranchCreate()).to_requested_branch())
    return to_response(BranchCreated.of(created, project, context), 201)


@router.get("/projects/{project_id}/branches/{branch_id}", response_model=BranchResponse)
async def get_project_branch(project: ReadableProject, branch_id: BranchIdPath, services: ServicesDep) -> Response:
    """Get a branch. Its `current_state` is `ready` when its data is available."""
    async with services.store.read() as rows:
        entry = await rows.branch_pages.get(project.id, BranchId(branch_id))
    if entry is None or entry.branch.deleted_at is not None:
        raise NotFound.resource("branch")
    return to_response(BranchResponse(branch=BranchView.of(entry), annotation=Annotation.of(entry.branch)))


@router.patch("/projects/{project_id}/branches/{branch_id}", response_model=BranchOperations)
async def update_project_branch(
    project: WritableProject, branch_id: BranchIdPath, body: BranchUpdate, context: ContextDep
) -> Response:
    """Change the name, protection or expiration of a branch. With `expires_at: null`, it never expires."""
    return await build_branch_response(
        context, *await update_branch(context, project, BranchId(branch_id), body.to_branch_change())
    )


@router.delete(
    "/projects/{project_id}/branches/{branch_id}",
    response_model=BranchOperations,
    responses={204: {"description": "The branch has already been deleted"}},
)
async def delete_project_branch(project: WritableProject, branch_id: BranchIdPath, context: ContextDep) -> Response:
    """Delete a branch and its endpoints. It can be recovered for one day (configurable). After that, its data is
    deleted.
    """
    deleted = await delete_branch(context, project, BranchId(branch_id))
    return Response(status_code=204) if deleted is None else await build_branch_response(context, *deleted)


@router.post("/projects/{project_id}/branches/{branch_id}/set_as_default", response_model=BranchOperations)
async def set_default_project_branch(
    project: WritableProject, branch_id: BranchIdPath, context: ContextDep
) -> Response:
    """Make it the default branch, which is used when a request names no branch."""
    return await build_branch_response(context, *await set_default_branch(context, project, BranchId(branch_id)))


@router.post(
    "/projects/{project_id}/branches/{branch_id}/set_as_primary",
    response_model=BranchOperations,
    deprecated=True,
)
async def set_primary_project_branch(
    project: WritableProject, branch_id: BranchIdPath, context: ContextDep
) -> Response:
    """Earlier name of `set_as_default`."""
    return await build_branch_response(context, *await set_default_branch(context, project, BranchId(branch_id)))


@router.get("/projects/{project_id}/branches/{branch_id}/endpoints", response_model=EndpointsResponse)
async def list_project_branch_endpoints(
    project: ReadableProject, branch_id: BranchIdPath, services: ServicesDep
) -> Response:
    """List the branch's endpoints, oldest first."""
    async with services.store.read() as rows:
        branch = await lookup.branch(rows, project, BranchId(branch_id))
        endpoints = await rows.endpoints.list_in_branch(branch.id)
    views = [EndpointView.of(endpoint, project.region_id, services.hosts) for endpoint in endpoints]
    return to_response(EndpointsResponse(endpoints=views))


async def build_branch_response(context: Context, branch: Branch, operations: list[Operation]) -> Response:
    async with context.services.store.read() as rows:
        entry = await rows.branch_pages.get(branch.project_id, branch.id)
    view = BranchView.new(branch, None) if entry is None else BranchView.with_usage(branch, entry.usage, entry.creator)
    return to_response(BranchOperations(branch=view, operations=[OperationView.of(each) for each in operations]))

"""Projects: list, create, get, change, delete, recover."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from bough import clock
from bough.access import levels, lookup
from bough.api.dependencies import (
    ContextDep,
    DeletableProject,
    IdempotentRoute,
    PrincipalDep,
    ReadableProject,
    RecoverableProject,
    ServicesDep,
    WritableProject,
)
from bough.api.paging import Pagination, decode_cursor, to_pagination
from bough.api.schemas import IdText, Text, View, to_response
from bough.api.v2.branch_views import BranchView
from bough.api.v2.connection_uris import ConnectionDetails
from bough.api.v2.databases import DatabaseView
from bough.api.v2.endpoints import EndpointView
from bough.api.v2.operations import OperationView
from bough.api.v2.project_bodies import ProjectCreate, ProjectUpdate
from bough.api.v2.project_views import ProjectListItem, ProjectView, to_project_owner, with_empty_usage
from bough.api.v2.roles import RoleView
from bough.control.context import Context
from bough.control.projects import projects as control_projects
from bough.control.projects import update
from bough.control.projects.projects import CreatedProject
from bough.control.services import Services
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import AccessLevel, OrgRight
from bough.ids import OrganizationId, ProjectId
from bough.store.paging import Page
from bough.store.project_pages import ProjectWithUsage

router = APIRouter(tags=["Project"], route_class=IdempotentRoute)

SMALL_PAGE = 100  # up to this size, a query takes less time than passing it to a thread


class SharedProjectsResponse(View):
    projects: list[ProjectListItem]
    pagination: Pagination | None


class ProjectsResponse(SharedProjectsResponse):
    applications: dict[str, list[str]] = Field(default_factory=dict)
    integrations: dict[str, list[str]] = Field(default_factory=dict)


class ProjectResponse(View):
    project: ProjectView


class ProjectChanged(View):
    project: ProjectView
    operations: list[OperationView]


class ProjectRecovered(View):
    project: ProjectView
    branches: list[BranchView]


class ProjectCreated(View):
    project: ProjectView
    connection_uris: list[ConnectionDetails]
    roles: list[RoleView]
    databases: list[DatabaseView]
    operations: list[OperationView]
    branch: BranchView
    endpoints: list[EndpointView]

    @classmethod
    def of(cls, created: CreatedProject, project: ProjectView, context: Context) -> "ProjectCreated":
        region_id, hosts = created.project.region_id, context.services.hosts
        uri = ConnectionDetails.of(
            created.endpoint,
            region_id,
            hosts,
            role=created.role.name,
            password=created.password,
            database=created.database.name,
        )
        return cls(
            project=project,
            connection_uris=[uri],
            roles=[RoleView.of(created.role, created.password)],
            databases=[DatabaseView.of(created.database)],
            operations=[OperationView.of(operation) for operation in created.operations],
            branch=BranchView.new(created.branch, created.creator_name),
            endpoints=[EndpointView.of(created.endpoint, region_id, hosts)],
        )


Cursor = Annotated[Text | None, Query()]
Limit = Annotated[int, Query(ge=1, le=400)]
Search = Annotated[Text, Query(max_length=256)]
Timeout = Annotated[int | None, Query(ge=100, le=30_000)]


@router.get("/projects", response_model=ProjectsResponse)
async def list_projects(
    caller: PrincipalDep,
    services: ServicesDep,
    cursor: Cursor = None,
    limit: Limit = 10,
    search: Search = "",
    org_id: Annotated[IdText | None, Query()] = None,
    timeout: Timeout = None,
    recoverable: Annotated[bool, Query()] = False,
) -> Response:
    """List the projects of the caller's organizations, newest first. With `recoverable`, list the deleted projects that
    can be recovered.
    """
    after = decode_cursor(cursor)
    if org_id is not None:
        caller.organization(OrganizationId(org_id), right=OrgRight.READ)
    memberships = [each for known, each in caller.memberships.items() if org_id in (None, known)]
    now = clock.now() if recoverable else None
    async with services.store.read(slow=bool(search) or limit > SMALL_PAGE) as rows:
        scope = await levels.find_reachable_projects(
            rows, caller, memberships, AccessLevel.ADMIN if recoverable else AccessLevel.VIEWER
        )
        page = await rows.project_pages.page(scope, search=search, limit=limit, after=after, recoverable_at=now)
        access_levels = await levels.load_levels(rows, caller, (entry.project for entry in page.rows))
    owners = {known: each.organization for known, each in caller.memberships.items()}
    views = _to_list_items(services, page, owners, access_levels)
    return to_response(ProjectsResponse(projects=views, pagination=to_pagination(page)))


@router.get("/projects/shared", response_model=SharedProjectsResponse)
async def list_shared_projects(
    caller: PrincipalDep,
    services: ServicesDep,
    cursor: Cursor = None,
    limit: Limit = 10,
    search: Search = "",
    timeout: Timeout = None,
) -> Response:
    """List the projects that other organizations share with the caller, newest first."""
    after = decode_cursor(cursor)
    async with services.store.read(slow=bool(search) or limit > SMALL_PAGE) as rows:
        scope = await levels.find_shared_projects(rows, caller)
        page = await rows.project_pages.page(scope, search=search, limit=limit, after=after)
        access_levels = await levels.load_levels(rows, caller, (entry.project for entry in page.rows))
        owners = await rows.organizations.get_many(scope.keys())
    views = _to_list_items(services, page, owners, access_levels)
    return to_response(SharedProjectsResponse(projects=views, pagination=to_pagination(page)))


@router.post("/projects", response_model=ProjectCreated, status_code=201)
async def create_project(body: ProjectCreate, context: ContextDep) -> Response:
    """Create a project with one branch, a role, a database and an endpoint, which starts immediately."""
    created = await control_projects.create_project(context, body.to_requested_project())
    return to_response(ProjectCreated.of(created, await _load_view(context, created.project), context), 201)


@router.get("/projects/{project_id}", response_model=ProjectResponse)
async def get_project(project: ReadableProject, context: ContextDep) -> Response:
    """Get a project."""
    return to_response(ProjectResponse(project=await _load_view(context, project)))


@router.patch("/projects/{project_id}", response_model=ProjectChanged)
async def update_project(project: WritableProject, body: ProjectUpdate, context: ContextDep) -> Response:
    """Change the name, settings, endpoint defaults or history retention of a project."""
    changed, operations = await update.update_project(context, project, body.to_project_change())
    views = [OperationView.of(operation) for operation in operations]
    return to_response(ProjectChanged(project=await _load_view(context, changed), operations=views))


@router.delete("/projects/{project_id}", response_model=ProjectResponse)
async def delete_project(project: DeletableProject, context: ContextDep) -> Response:
    """Delete a project and stop its computes. It can be recovered for seven days (configurable)."""
    return to_response(
        ProjectResponse(project=await _load_view(context, await control_projects.delete_project(context, project)))
    )


@router.post("/projects/{project_id}/recover", response_model=ProjectRecovered)
async def recover_project(project: RecoverableProject, context: ContextDep) -> Response:
    """Recover a deleted project with all its data."""
    recovered = await control_projects.recover_project(context, project)
    async with context.services.store.read() as rows:
        branches = [BranchView.of(entry) for entry in await rows.branch_pages.list_in_project(project.id)]
    return to_response(ProjectRecovered(project=await _load_view(context, recovered), branches=branches))


def _to_list_items(
    services: Services,
    page: Page[ProjectWithUsage],
    owners: Mapping[OrganizationId, Organization],
    access_levels: Mapping[ProjectId, AccessLevel],
) -> list[ProjectListItem]:
    return [
        ProjectListItem.of(entry, owner, services.settings.plan(owner.plan), services.hosts, access_levels[entry.id])
        for entry in page.rows
        if (owner := owners[entry.project.org_id])
    ]


async def _load_view(context: Context, project: Project) -> ProjectView:
    async with context.services.store.read() as rows:
        entry = await rows.project_pages.get(project.id)
        user = await rows.users.get(project.created_by)
        organization = await lookup.organization_of(rows, context.principal, project)
        level = await levels.load_level(rows, context.principal, project)
    plan = context.organization_plan(organization)
    measured = with_empty_usage(project) if entry is None else replace(entry, project=project)
    return ProjectView.of(
        measured, plan, context.services.hosts, level, to_project_owner(user, organization, plan) if user else None
    )

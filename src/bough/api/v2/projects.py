"""Projects: list, create, get, change, delete, recover."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field, StrictInt

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
from bough.api.schemas import Body, ComputeUnits, Flag, IdText, Name, Text, View, to_response
from bough.api.v2.branch_views import BranchView
from bough.api.v2.connection_uris import ConnectionDetails
from bough.api.v2.databases import DatabaseView
from bough.api.v2.endpoints import EndpointView
from bough.api.v2.operations import OperationView
from bough.api.v2.project_settings import DefaultEndpointSettings, ProjectSettings
from bough.api.v2.project_views import ProjectListItem, ProjectView, to_project_owner, with_empty_usage
from bough.api.v2.roles import RoleView
from bough.control.context import Context
from bough.control.projects import projects as control_projects
from bough.control.projects.plan import NewProject, ProjectChange
from bough.control.projects.projects import CreatedProject
from bough.control.services import Services
from bough.domain.organization import Organization
from bough.domain.project import MAX_HISTORY_RETENTION_SECONDS, Project
from bough.domain.rights import AccessLevel, OrgRight
from bough.ids import OrganizationId, ProjectId
from bough.store.paging import Page
from bough.store.projects import ProjectWithUsage

router = APIRouter(tags=["Project"], route_class=IdempotentRoute)

SMALL_PAGE = 100  # projects that are read in less time than it takes to ask another thread for them

RetentionSeconds = Annotated[StrictInt, Field(ge=0, le=MAX_HISTORY_RETENTION_SECONDS)]


class FirstBranchBody(Body):
    name: Name | None = None
    role_name: str | None = None
    database_name: str | None = None
    annotations: dict[str, str] = Field(default_factory=dict)


class NewProjectBody(Body):
    settings: ProjectSettings = ProjectSettings()
    name: Name | None = None
    branch: FirstBranchBody = FirstBranchBody()
    autoscaling_limit_min_cu: ComputeUnits | None = None
    autoscaling_limit_max_cu: ComputeUnits | None = None
    provisioner: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    region_id: str | None = None
    default_endpoint_settings: DefaultEndpointSettings = DefaultEndpointSettings()
    pg_version: Annotated[StrictInt, Field(ge=14, le=18)] | None = None
    store_passwords: Flag = True
    history_retention_seconds: RetentionSeconds | None = None
    org_id: IdText | None = None


class ProjectCreate(Body):
    project: NewProjectBody

    def to_new_project(self) -> NewProject:
        asked = self.project
        limits = {"autoscaling_limit_min_cu", "autoscaling_limit_max_cu"}
        return NewProject(
            name=asked.name,
            org_id=OrganizationId(asked.org_id) if asked.org_id else None,
            region_id=asked.region_id,
            pg_version=asked.pg_version,
            provisioner=asked.provisioner,
            store_passwords=asked.store_passwords,
            history_retention_seconds=asked.history_retention_seconds,
            settings=asked.settings.dump_provided(),
            default_endpoint_settings={
                **asked.model_dump(include=limits, exclude_none=True),
                **asked.default_endpoint_settings.dump_provided(),
            },
            branch_name=asked.branch.name,
            role_name=asked.branch.role_name,
            database_name=asked.branch.database_name,
            annotations=asked.branch.annotations,
        )


class ChangedProjectBody(Body):
    settings: ProjectSettings = ProjectSettings()
    name: Name | None = None
    default_endpoint_settings: DefaultEndpointSettings | None = None
    history_retention_seconds: RetentionSeconds | None = None


class ProjectUpdate(Body):
    project: ChangedProjectBody

    def to_project_change(self) -> ProjectChange:
        asked = self.project
        endpoints = asked.default_endpoint_settings
        return ProjectChange(
            name=asked.name,
            settings=asked.settings.dump_provided(),
            default_endpoint_settings=endpoints.dump_provided() if endpoints else None,
            history_retention_seconds=asked.history_retention_seconds,
        )


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
    def of(cls, made: CreatedProject, project: ProjectView, context: Context) -> "ProjectCreated":
        region_id, hosts = made.project.region_id, context.services.hosts
        uri = ConnectionDetails.of(
            made.endpoint,
            region_id,
            hosts,
            role=made.role.name,
            password=made.password,
            database=made.database.name,
        )
        return cls(
            project=project,
            connection_uris=[uri],
            roles=[RoleView.of(made.role, made.password)],
            databases=[DatabaseView.of(made.database)],
            operations=[OperationView.of(operation) for operation in made.operations],
            branch=BranchView.new(made.branch, made.creator_name),
            endpoints=[EndpointView.of(made.endpoint, region_id, hosts)],
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
    """The projects of the caller's organizations, newest first; with `recoverable` the deleted ones."""
    place = decode_cursor(cursor)
    if org_id is not None:
        caller.organization(OrganizationId(org_id), right=OrgRight.READ)
    asked = [each for known, each in caller.memberships.items() if org_id in (None, known)]
    now = clock.now() if recoverable else None
    async with services.store.read(slow=bool(search) or limit > SMALL_PAGE) as rows:
        reach = await levels.find_reachable_projects(
            rows, caller, asked, AccessLevel.ADMIN if recoverable else AccessLevel.VIEWER
        )
        page = await rows.projects.page(reach, search=search, limit=limit, after=place, recoverable_at=now)
        has = await levels.load_levels(rows, caller, (seen.project for seen in page.rows))
    owners = {known: each.organization for known, each in caller.memberships.items()}
    shown = _listed(services, page, owners, has)
    return to_response(ProjectsResponse(projects=shown, pagination=to_pagination(page)))


@router.get("/projects/shared", response_model=SharedProjectsResponse)
async def list_shared_projects(
    caller: PrincipalDep,
    services: ServicesDep,
    cursor: Cursor = None,
    limit: Limit = 10,
    search: Search = "",
    timeout: Timeout = None,
) -> Response:
    """The projects that other organizations share with the caller, newest first."""
    place = decode_cursor(cursor)
    async with services.store.read(slow=bool(search) or limit > SMALL_PAGE) as rows:
        reach = await levels.find_shared_projects(rows, caller)
        page = await rows.projects.page(reach, search=search, limit=limit, after=place)
        has = await levels.load_levels(rows, caller, (seen.project for seen in page.rows))
        owners = await rows.organizations.get_many(reach.keys())
    shown = _listed(services, page, owners, has)
    return to_response(SharedProjectsResponse(projects=shown, pagination=to_pagination(page)))


@router.post("/projects", response_model=ProjectCreated, status_code=201)
async def create_project(body: ProjectCreate, context: ContextDep) -> Response:
    """A project with one branch, a role, a database and an endpoint that starts at once."""
    made = await control_projects.create_project(context, body.to_new_project())
    return to_response(ProjectCreated.of(made, await _shown(context, made.project), context), 201)


@router.get("/projects/{project_id}", response_model=ProjectResponse)
async def get_project(project: ReadableProject, context: ContextDep) -> Response:
    """One project."""
    return to_response(ProjectResponse(project=await _shown(context, project)))


@router.patch("/projects/{project_id}", response_model=ProjectChanged)
async def update_project(project: WritableProject, body: ProjectUpdate, context: ContextDep) -> Response:
    """Change a project's name, settings, endpoint defaults or history window."""
    changed, operations = await control_projects.update_project(context, project, body.to_project_change())
    shown = [OperationView.of(operation) for operation in operations]
    return to_response(ProjectChanged(project=await _shown(context, changed), operations=shown))


@router.delete("/projects/{project_id}", response_model=ProjectResponse)
async def delete_project(project: DeletableProject, context: ContextDep) -> Response:
    """Delete a project. Its computes stop; for seven days (a setting) it can be recovered."""
    return to_response(
        ProjectResponse(project=await _shown(context, await control_projects.delete_project(context, project)))
    )


@router.post("/projects/{project_id}/recover", response_model=ProjectRecovered)
async def recover_project(project: RecoverableProject, context: ContextDep) -> Response:
    """Bring a deleted project back whole."""
    recovered = await control_projects.recover_project(context, project)
    async with context.services.store.read() as rows:
        branches = [BranchView.of(seen) for seen in await rows.branch_pages.list_in_project(project.id)]
    return to_response(ProjectRecovered(project=await _shown(context, recovered), branches=branches))


def _listed(
    given: Services,
    page: Page[ProjectWithUsage],
    owners: Mapping[OrganizationId, Organization],
    has: Mapping[ProjectId, AccessLevel],
) -> list[ProjectListItem]:
    return [
        ProjectListItem.of(seen, owner, given.settings.plan(owner.plan), given.hosts, has[seen.id])
        for seen in page.rows
        if (owner := owners[seen.project.org_id])
    ]


async def _shown(context: Context, project: Project) -> ProjectView:
    async with context.services.store.read() as rows:
        seen = await rows.projects.get_with_usage(project.id)
        user = await rows.users.get(project.created_by)
        organization = await lookup.organization_of(rows, context.principal, project)
        level = await levels.load_level(rows, context.principal, project)
    plan = context.organization_plan(organization)
    measured = with_empty_usage(project) if seen is None else replace(seen, project=project)
    return ProjectView.of(
        measured, plan, context.services.hosts, level, to_project_owner(user, organization, plan) if user else None
    )

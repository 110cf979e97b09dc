"""The Postgres builds of the installation, for the operator."""

from fastapi import APIRouter, Response

from bough.api.dependencies import ContextDep, IdempotentRoute, OperatorDep, ServicesDep
from bough.api.schemas import IdText, View, to_response
from bough.control.endpoints.endpoints import restart_endpoint
from bough.engine.port import Build
from bough.errors import NotFound
from bough.ids import EndpointId, ProjectId

router = APIRouter(tags=["Postgres builds"], route_class=IdempotentRoute)


class PreviousBuildView(View):
    id: str
    version: str


class OutdatedComputeView(View):
    project_id: str
    endpoint_id: str
    version: str


class ProjectBuildView(View):
    project_id: str
    id: str


class BuildView(View):
    pin: str
    pg_version: int
    id: str
    version: str
    previous: PreviousBuildView | None
    is_default: bool
    projects: int
    outdated_computes: list[OutdatedComputeView]
    project_builds: list[ProjectBuildView]

    @classmethod
    def of(cls, build: Build, projects: int, endpoints: dict[EndpointId, ProjectId]) -> "BuildView":
        previous = None
        if build.previous_id is not None and build.previous_version is not None:
            previous = PreviousBuildView(id=build.previous_id, version=build.previous_version)
        return cls(
            pin=build.pin,
            pg_version=build.major,
            id=build.id,
            version=build.version,
            previous=previous,
            is_default=build.is_default,
            projects=projects,
            outdated_computes=[
                OutdatedComputeView(project_id=endpoints[endpoint], endpoint_id=endpoint, version=version)
                for endpoint, version in sorted(build.outdated.items())
                if endpoint in endpoints
            ],
            project_builds=[
                ProjectBuildView(project_id=project, id=install)
                for project, install in sorted(build.project_builds.items())
            ],
        )


class IndexView(View):
    project_id: str
    branch_id: str
    database: str
    index: str
    statement: str


class BuildsResponse(View):
    builds: list[BuildView]
    indexes_to_rebuild: list[IndexView]


class RestartResponse(View):
    operation_ids: list[str]


@router.get("/bough/postgres", response_model=BuildsResponse)
async def list_builds(_operator: OperatorDep, services: ServicesDep) -> Response:
    """List the Postgres builds that projects use, the running computes that were started with older ones, and the
    indexes that a new build may sort differently.
    """
    builds = await services.engine.list_builds()
    indexes = await services.engine.list_indexes_to_rebuild()
    outdated = {endpoint for build in builds for endpoint in build.outdated}
    async with services.store.read() as rows:
        projects = await rows.projects.count_by_install()
        endpoints = await rows.endpoints.find_projects(outdated)
        branches = await rows.branches.find_by_volumes(indexes)
    views = [BuildView.of(build, projects.get(build.pin, 0), endpoints) for build in builds]
    return to_response(
        BuildsResponse(
            builds=[view for view in views if view.projects or view.is_default],
            indexes_to_rebuild=[
                IndexView(
                    project_id=branches[volume].project_id,
                    branch_id=branches[volume].id,
                    database=each.database,
                    index=each.index,
                    statement=each.statement,
                )
                for volume, found in indexes.items()
                if volume in branches
                for each in found
            ],
        )
    )


@router.post("/bough/projects/{project_id}/endpoints/{endpoint_id}/restart", response_model=RestartResponse)
async def restart_compute(
    _operator: OperatorDep, context: ContextDep, project_id: IdText, endpoint_id: IdText
) -> Response:
    """Restart the compute of any project, such as for an update of its build. Its connections are closed."""
    async with context.services.store.read() as rows:
        project = await rows.projects.get(ProjectId(project_id))
    if project is None or project.deleted_at is not None:
        raise NotFound.resource("project")
    _, operations = await restart_endpoint(context, project, EndpointId(endpoint_id))
    return to_response(RestartResponse(operation_ids=[each.id for each in operations]))

"""The Postgres builds of the installation, for the operator."""

from datetime import datetime

from fastapi import APIRouter, Response

from bough.api.dependencies import ContextDep, IdempotentRoute, OperatorDep, ServicesDep
from bough.api.schemas import IdText, View, to_response
from bough.control.endpoints.endpoints import restart_endpoint
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.maintenance import Maintenance, RestartNeed
from bough.engine.port import Build, PutBackBuild
from bough.errors import NotFound
from bough.ids import EndpointId, ProjectId
from bough.store.store import Rows

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


class PlannedRestartView(View):
    project_id: str
    endpoint_id: str
    reasons: list[str]
    from_version: str
    to_version: str
    settings: list[str]
    scheduled_for: datetime | None
    is_waiting_for_base: bool

    @classmethod
    def of(cls, need: RestartNeed, plan: Maintenance | None) -> "PlannedRestartView":
        return cls(
            project_id=need.project_id,
            endpoint_id=need.endpoint_id,
            reasons=list(need.reasons),
            from_version=need.from_version,
            to_version=need.to_version,
            settings=list(need.settings),
            scheduled_for=plan.scheduled_for if plan else None,
            is_waiting_for_base=need.is_waiting_for_base,
        )


class PutBackView(View):
    project_id: str
    branch_id: str
    endpoint_id: str | None
    build_id: str
    version: str
    kept_version: str
    reason: str
    at: datetime

    @classmethod
    def of(cls, put_back: PutBackBuild, branch: Branch, endpoint: Endpoint | None) -> "PutBackView":
        return cls(
            project_id=branch.project_id,
            branch_id=branch.id,
            endpoint_id=endpoint.id if endpoint else None,
            build_id=put_back.build_id,
            version=put_back.version,
            kept_version=put_back.kept_version,
            reason=put_back.reason,
            at=put_back.at,
        )


class BuildView(View):
    pin: str
    pg_version: int
    id: str
    version: str
    previous: PreviousBuildView | None
    is_default: bool
    problem: str | None
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
            problem=build.problem,
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
    planned_restarts: list[PlannedRestartView]
    put_back: list[PutBackView]


class RestartResponse(View):
    operation_ids: list[str]


@router.get("/bough/postgres", response_model=BuildsResponse)
async def list_builds(_operator: OperatorDep, services: ServicesDep) -> Response:
    """List the Postgres builds that projects use, the running computes that were started with older ones, when they are
    restarted, the branches on which a build did not start, and the indexes that a new build may sort differently.
    """
    builds = await services.engine.list_builds()
    indexes = await services.engine.list_indexes_to_rebuild()
    needs, put_back = await services.engine.list_restart_needs(), await services.engine.list_put_back()
    outdated = {endpoint for build in builds for endpoint in build.outdated}
    async with services.store.read() as rows:
        projects = await rows.projects.count_by_install()
        endpoints = await rows.endpoints.find_projects(outdated)
        branches = await rows.branches.find_by_volumes({*indexes, *(each.volume_id for each in put_back)})
        plans = {plan.project_id: plan for plan in await rows.maintenance.list_planned()}
        found_put_back = [await _find_put_back(rows, each, branches.get(each.volume_id)) for each in put_back]
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
            planned_restarts=[PlannedRestartView.of(need, plans.get(need.project_id)) for need in needs],
            put_back=[each for each in found_put_back if each],
        )
    )


async def _find_put_back(rows: Rows, put_back: PutBackBuild, branch: Branch | None) -> PutBackView | None:
    """Find the endpoint that uses the volume: the copy of a read replica has no branch of its own."""
    if branch is not None:
        return PutBackView.of(put_back, branch, await rows.endpoints.get_read_write(branch.id))
    endpoint = await rows.endpoints.find_by_volume(put_back.volume_id)
    own = await rows.branches.get(endpoint.project_id, endpoint.branch_id) if endpoint else None
    return PutBackView.of(put_back, own, endpoint) if own else None


@router.post("/bough/projects/{project_id}/endpoints/{endpoint_id}/restart", response_model=RestartResponse)
async def restart_compute(
    _operator: OperatorDep, context: ContextDep, project_id: IdText, endpoint_id: IdText
) -> Response:
    """Restart the compute of any project, such as for an update of its build. Its connections are closed. A build that
    did not start before is tried again.
    """
    async with context.services.store.read() as rows:
        project = await rows.projects.get(ProjectId(project_id))
    if project is None or project.deleted_at is not None:
        raise NotFound.resource("project")
    _, operations = await restart_endpoint(context, project, EndpointId(endpoint_id), retries_build=True)
    return to_response(RestartResponse(operation_ids=[each.id for each in operations]))

"""Endpoints: list, get, create, change, delete, start, suspend, restart."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response

from bough import ids
from bough.access import lookup
from bough.api.dependencies import ContextDep, IdempotentRoute, ReadableProject, ServicesDep, WritableProject
from bough.api.schemas import View, to_response
from bough.api.v2.endpoint_bodies import EndpointCreate, EndpointUpdate
from bough.api.v2.operations import OperationView
from bough.control.context import Context
from bough.control.endpoints.endpoints import (
    create_endpoint,
    delete_endpoint,
    restart_endpoint,
    start_endpoint,
    suspend_endpoint,
    update_endpoint,
)
from bough.domain.endpoint import Endpoint, EndpointHosts, EndpointState, EndpointType
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.errors import Invalid
from bough.ids import BranchId, EndpointId

router = APIRouter(tags=["Endpoint"], route_class=IdempotentRoute)

EndpointIdPath = Annotated[str, Path(pattern=ids.PATTERN, alias="endpoint_id")]


class EndpointView(View):
    host: str
    id: str
    name: str | None
    project_id: str
    branch_id: str
    autoscaling_limit_min_cu: float
    autoscaling_limit_max_cu: float
    region_id: str
    type: EndpointType
    current_state: EndpointState
    pending_state: EndpointState | None
    settings: dict[str, Any]
    pooler_enabled: bool
    pooler_mode: Literal["transaction"]
    disabled: bool
    passwordless_access: bool
    last_active: datetime | None
    creation_source: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    suspended_at: datetime | None
    proxy_host: str
    suspend_timeout_seconds: int
    provisioner: str

    @classmethod
    def of(cls, endpoint: Endpoint, region_id: str, hosts: EndpointHosts) -> "EndpointView":
        return cls(
            host=hosts.direct_host(endpoint.id, region_id),
            id=endpoint.id,
            name=endpoint.name,
            project_id=endpoint.project_id,
            branch_id=endpoint.branch_id,
            autoscaling_limit_min_cu=endpoint.min_cu,
            autoscaling_limit_max_cu=endpoint.max_cu,
            region_id=region_id,
            type=endpoint.type,
            current_state=endpoint.state,
            pending_state=endpoint.pending_state,
            settings=dict(endpoint.settings),
            pooler_enabled=endpoint.pooler_enabled,
            pooler_mode="transaction",
            disabled=endpoint.disabled,
            passwordless_access=endpoint.passwordless_access,
            last_active=endpoint.last_active,
            creation_source=endpoint.creation_source,
            created_at=endpoint.created_at,
            updated_at=endpoint.updated_at,
            started_at=endpoint.started_at,
            suspended_at=endpoint.suspended_at,
            proxy_host=hosts.proxy_host(region_id),
            suspend_timeout_seconds=endpoint.suspend_timeout_seconds,
            provisioner=endpoint.provisioner,
        )


class EndpointResponse(View):
    endpoint: EndpointView


class EndpointsResponse(View):
    endpoints: list[EndpointView]


class EndpointOperations(View):
    endpoint: EndpointView
    operations: list[OperationView]


@router.get("/projects/{project_id}/endpoints", response_model=EndpointsResponse)
async def list_project_endpoints(project: ReadableProject, services: ServicesDep) -> Response:
    """List the project's endpoints, oldest first."""
    async with services.store.read() as rows:
        endpoints = await rows.endpoints.list_in_project(project.id)
    views = [EndpointView.of(endpoint, project.region_id, services.hosts) for endpoint in endpoints]
    return to_response(EndpointsResponse(endpoints=views))


@router.get("/projects/{project_id}/endpoints/{endpoint_id}", response_model=EndpointResponse)
async def get_project_endpoint(
    project: ReadableProject, endpoint_id: EndpointIdPath, services: ServicesDep
) -> Response:
    """Get an endpoint. Its `current_state` tells whether its compute runs."""
    async with services.store.read() as rows:
        endpoint = await lookup.endpoint(rows, project, EndpointId(endpoint_id))
    return to_response(EndpointResponse(endpoint=EndpointView.of(endpoint, project.region_id, services.hosts)))


@router.post("/projects/{project_id}/endpoints", response_model=EndpointOperations, status_code=201)
async def create_project_endpoint(project: WritableProject, body: EndpointCreate, context: ContextDep) -> Response:
    """Create an endpoint for a branch and start it. A branch has at most one `read_write` endpoint and any number of
    `read_only` endpoints.
    """
    requested = body.endpoint
    if requested.region_id not in (None, project.region_id):
        raise Invalid(f"Endpoints are in the region of their project, {project.region_id}: leave region_id out.")
    created = await create_endpoint(
        context, project, BranchId(requested.branch_id), requested.type, requested.to_endpoint_request()
    )
    return _build_response(context, project, *created, status=201)


@router.patch("/projects/{project_id}/endpoints/{endpoint_id}", response_model=EndpointOperations)
async def update_project_endpoint(
    project: WritableProject, endpoint_id: EndpointIdPath, body: EndpointUpdate, context: ContextDep
) -> Response:
    """Change an endpoint. A new minimum size does not interrupt clients. A new maximum size, a Postgres setting
    that needs a restart, and `disabled` close their connections. Each group of `settings` replaces the earlier one. The
    `-pooler` host always uses transaction pooling. With `pooler_enabled`, the plain host does too.
    """
    requested = body.endpoint
    if requested.branch_id is not None:
        async with context.services.store.read() as rows:
            endpoint = await lookup.endpoint(rows, project, EndpointId(endpoint_id))
        if endpoint.branch_id != requested.branch_id:
            raise Invalid("An endpoint stays with its branch. Create another endpoint for the other branch instead.")
    return _build_response(
        context, project, *await update_endpoint(context, project, EndpointId(endpoint_id), body.to_endpoint_request())
    )


@router.delete(
    "/projects/{project_id}/endpoints/{endpoint_id}",
    response_model=EndpointOperations,
    responses={204: {"description": "The endpoint has already been deleted"}},
)
async def delete_project_endpoint(
    project: WritableProject, endpoint_id: EndpointIdPath, context: ContextDep
) -> Response:
    """Delete an endpoint and close its connections. The data of its branch is kept."""
    deleted = await delete_endpoint(context, project, EndpointId(endpoint_id))
    return Response(status_code=204) if deleted is None else _build_response(context, project, *deleted)


@router.post("/projects/{project_id}/endpoints/{endpoint_id}/start", response_model=EndpointOperations)
async def start_project_endpoint(
    project: WritableProject, endpoint_id: EndpointIdPath, context: ContextDep
) -> Response:
    """Start the endpoint's compute. Has no effect if it already runs."""
    return _build_response(context, project, *await start_endpoint(context, project, EndpointId(endpoint_id)))


@router.post("/projects/{project_id}/endpoints/{endpoint_id}/suspend", response_model=EndpointOperations)
async def suspend_project_endpoint(
    project: WritableProject, endpoint_id: EndpointIdPath, context: ContextDep
) -> Response:
    """Stop the endpoint's compute and close its connections. The next connection starts it again."""
    return _build_response(context, project, *await suspend_endpoint(context, project, EndpointId(endpoint_id)))


@router.post("/projects/{project_id}/endpoints/{endpoint_id}/restart", response_model=EndpointOperations)
async def restart_project_endpoint(
    project: WritableProject, endpoint_id: EndpointIdPath, context: ContextDep
) -> Response:
    """Stop the endpoint's compute, close its connections, and start it again."""
    return _build_response(context, project, *await restart_endpoint(context, project, EndpointId(endpoint_id)))


def _build_response(
    context: Context, project: Project, endpoint: Endpoint, operations: list[Operation], status: int = 200
) -> Response:
    return to_response(
        EndpointOperations(
            endpoint=EndpointView.of(endpoint, project.region_id, context.services.hosts),
            operations=[OperationView.of(operation) for operation in operations],
        ),
        status,
    )

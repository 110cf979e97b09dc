"""Endpoints: look at them, change, start, suspend and restart them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from pydantic import Field, model_validator

from bough import ids
from bough.access import lookup
from bough.api.given import DeskGiven, OnceRoute, PartsGiven, ReadableProject, WritableProject
from bough.api.shapes import Body, Flag, View, show
from bough.api.v2.operations import OperationView
from bough.api.v2.project_settings import PoolerSettings
from bough.control.desk import Desk
from bough.control.endpoints import EndpointChange, Endpoints
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, Hosts
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.ids import EndpointId

router = APIRouter(tags=["Endpoint"], route_class=OnceRoute)

EndpointName = Annotated[str, Path(pattern=ids.PATTERN, alias="endpoint_id")]


class _Change(Body):
    """Passes over nothing: a field that cannot be changed yet is refused, with those that can."""

    @model_validator(mode="before")
    @classmethod
    def _has_nothing_else(cls, value: Any) -> Any:
        given = value if isinstance(value, dict) else {}
        others = [repr(name[:63]) for name, said in given.items() if said is not None and name not in cls.model_fields]
        if others:
            raise ValueError(
                f"{', '.join(others[:3])} cannot be changed here yet; what can be changed is "
                "pooler_enabled, pooler_mode and settings.pgbouncer_settings"
            )
        return value


class ChangedEndpointSettings(_Change):
    pgbouncer_settings: PoolerSettings | None = None


class ChangedEndpointBody(_Change):
    pooler_enabled: Flag | None = None
    pooler_mode: Annotated[str, Field(json_schema_extra={"enum": ["transaction"]})] | None = None
    settings: ChangedEndpointSettings | None = None


class EndpointUpdate(Body):
    endpoint: ChangedEndpointBody

    def change(self) -> EndpointChange:
        asked = self.endpoint
        return EndpointChange(
            pooler_enabled=asked.pooler_enabled,
            pooler_mode=asked.pooler_mode,
            pgbouncer_settings=asked.settings.pgbouncer_settings if asked.settings else None,
        )


class EndpointView(View):
    host: str
    id: str
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
    def of(cls, endpoint: Endpoint, region_id: str, hosts: Hosts) -> "EndpointView":
        return cls(
            host=hosts.direct(endpoint.id, region_id),
            id=endpoint.id,
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
            proxy_host=hosts.proxy(region_id),
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
async def list_project_endpoints(project: ReadableProject, given: PartsGiven) -> Response:
    """The project's endpoints, oldest first."""
    async with given.store.read() as rows:
        found = await rows.endpoints.of_project(project.id)
    shown = [EndpointView.of(endpoint, project.region_id, given.hosts) for endpoint in found]
    return show(EndpointsResponse(endpoints=shown))


@router.get("/projects/{project_id}/endpoints/{endpoint_id}", response_model=EndpointResponse)
async def get_project_endpoint(project: ReadableProject, endpoint_id: EndpointName, given: PartsGiven) -> Response:
    """One endpoint; `current_state` says whether its compute runs."""
    async with given.store.read() as rows:
        endpoint = await lookup.endpoint(rows, project, EndpointId(endpoint_id))
    return show(EndpointResponse(endpoint=EndpointView.of(endpoint, project.region_id, given.hosts)))


@router.patch("/projects/{project_id}/endpoints/{endpoint_id}", response_model=EndpointOperations)
async def update_project_endpoint(
    project: WritableProject, endpoint_id: EndpointName, body: EndpointUpdate, desk: DeskGiven
) -> Response:
    """Change how an endpoint pools. Its `-pooler` host always does, a transaction at a time; with `pooler_enabled` its
    plain host does too. `settings.pgbouncer_settings` replaces what was set before. Nobody is cut off.
    """
    return _shown(desk, project, await Endpoints(desk).change(project, EndpointId(endpoint_id), body.change()), [])


@router.post("/projects/{project_id}/endpoints/{endpoint_id}/start", response_model=EndpointOperations)
async def start_project_endpoint(project: WritableProject, endpoint_id: EndpointName, desk: DeskGiven) -> Response:
    """Start the endpoint's compute. One that runs already is left alone."""
    return _shown(desk, project, *await Endpoints(desk).start(project, EndpointId(endpoint_id)))


@router.post("/projects/{project_id}/endpoints/{endpoint_id}/suspend", response_model=EndpointOperations)
async def suspend_project_endpoint(project: WritableProject, endpoint_id: EndpointName, desk: DeskGiven) -> Response:
    """Stop the endpoint's compute and cut its connections. The next connection wakes it."""
    return _shown(desk, project, *await Endpoints(desk).suspend(project, EndpointId(endpoint_id)))


@router.post("/projects/{project_id}/endpoints/{endpoint_id}/restart", response_model=EndpointOperations)
async def restart_project_endpoint(project: WritableProject, endpoint_id: EndpointName, desk: DeskGiven) -> Response:
    """Stop the endpoint's compute, cut its connections, and start it again."""
    return _shown(desk, project, *await Endpoints(desk).restart(project, EndpointId(endpoint_id)))


def _shown(desk: Desk, project: Project, endpoint: Endpoint, operations: list[Operation]) -> Response:
    return show(
        EndpointOperations(
            endpoint=EndpointView.of(endpoint, project.region_id, desk.hosts),
            operations=[OperationView.of(operation) for operation in operations],
        )
    )

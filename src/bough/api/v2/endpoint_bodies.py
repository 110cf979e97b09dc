"""Request bodies to create and change endpoints."""

from typing import Annotated, Any

from pydantic import Field, StrictInt

from bough.api.schemas import Body, ComputeUnits, Flag, IdText
from bough.api.v2.project_settings import PoolerSettings, PreloadLibraries, SettingNames
from bough.control.endpoints.plan import RequestedEndpoint
from bough.domain.endpoint import EndpointType

EndpointLabel = Annotated[str, Field(min_length=1, max_length=64)]
PoolerMode = Annotated[str, Field(json_schema_extra={"enum": ["transaction"]})]
SuspendTimeout = Annotated[StrictInt, Field(ge=-1, le=604800)]


class EndpointSettings(Body):
    pg_settings: SettingNames | None = None
    pgbouncer_settings: PoolerSettings | None = None
    preload_libraries: PreloadLibraries | None = None


class NewEndpointOptions(Body):
    """Options of an endpoint that is created with its branch."""

    type: EndpointType
    settings: EndpointSettings | None = None
    autoscaling_limit_min_cu: ComputeUnits | None = None
    autoscaling_limit_max_cu: ComputeUnits | None = None
    provisioner: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    suspend_timeout_seconds: SuspendTimeout | None = None

    def to_endpoint_request(self) -> RequestedEndpoint:
        return RequestedEndpoint(**_common_fields(self))


class NewEndpointBody(NewEndpointOptions):
    branch_id: IdText
    region_id: str | None = None
    pooler_enabled: Flag | None = None
    pooler_mode: PoolerMode | None = None
    disabled: Flag | None = None
    passwordless_access: Flag | None = None
    name: EndpointLabel | None = None

    def to_endpoint_request(self) -> RequestedEndpoint:
        return RequestedEndpoint(**_common_fields(self), **_remaining_fields(self))


class EndpointCreate(Body):
    endpoint: NewEndpointBody


class ChangedEndpointBody(Body):
    branch_id: IdText | None = None
    autoscaling_limit_min_cu: ComputeUnits | None = None
    autoscaling_limit_max_cu: ComputeUnits | None = None
    provisioner: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    settings: EndpointSettings | None = None
    pooler_enabled: Flag | None = None
    pooler_mode: PoolerMode | None = None
    disabled: Flag | None = None
    passwordless_access: Flag | None = None
    suspend_timeout_seconds: SuspendTimeout | None = None
    name: EndpointLabel | None = None


class EndpointUpdate(Body):
    endpoint: ChangedEndpointBody

    def to_endpoint_request(self) -> RequestedEndpoint:
        return RequestedEndpoint(**_common_fields(self.endpoint), **_remaining_fields(self.endpoint))


def _common_fields(body: NewEndpointOptions | ChangedEndpointBody) -> dict[str, Any]:
    return {
        "min_cu": body.autoscaling_limit_min_cu,
        "max_cu": body.autoscaling_limit_max_cu,
        "suspend_timeout_seconds": body.suspend_timeout_seconds,
        "pg_settings": body.settings.pg_settings if body.settings else None,
        "pgbouncer_settings": body.settings.pgbouncer_settings if body.settings else None,
        "preload_libraries": _preload_libraries(body.settings),
        "provisioner": body.provisioner,
    }


def _preload_libraries(settings: EndpointSettings | None) -> dict[str, Any] | None:
    if settings is None or settings.preload_libraries is None:
        return None
    return settings.preload_libraries.model_dump(exclude_none=True)


def _remaining_fields(body: NewEndpointBody | ChangedEndpointBody) -> dict[str, Any]:
    names = ("pooler_enabled", "pooler_mode", "disabled", "passwordless_access", "name")
    return {name: getattr(body, name) for name in names}

"""Endpoints: what callers may say of one that is new, or that is changed."""

from typing import Annotated, Any, Self

from pydantic import Field, StrictInt, model_validator

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

    @model_validator(mode="after")
    def _loads_nothing(self) -> Self:
        """Said, not passed over: whoever asks for a library relies on it."""
        if self.preload_libraries is not None and self.preload_libraries.enabled_libraries:
            raise ValueError("libraries cannot be preloaded here yet: leave enabled_libraries empty")
        return self


class NewEndpointOptions(Body):
    """What may be said of an endpoint that comes with its branch."""

    type: EndpointType
    settings: EndpointSettings | None = None
    autoscaling_limit_min_cu: ComputeUnits | None = None
    autoscaling_limit_max_cu: ComputeUnits | None = None
    provisioner: Annotated[str, Field(min_length=1, max_length=60)] | None = None
    suspend_timeout_seconds: SuspendTimeout | None = None

    def to_endpoint_request(self) -> RequestedEndpoint:
        return RequestedEndpoint(**_common(self))


class NewEndpointBody(NewEndpointOptions):
    branch_id: IdText
    region_id: str | None = None
    pooler_enabled: Flag | None = None
    pooler_mode: PoolerMode | None = None
    disabled: Flag | None = None
    passwordless_access: Flag | None = None
    name: EndpointLabel | None = None

    def to_endpoint_request(self) -> RequestedEndpoint:
        return RequestedEndpoint(**_common(self), **_rest(self))


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
        return RequestedEndpoint(**_common(self.endpoint), **_rest(self.endpoint))


def _common(asked: NewEndpointOptions | ChangedEndpointBody) -> dict[str, Any]:
    return {
        "min_cu": asked.autoscaling_limit_min_cu,
        "max_cu": asked.autoscaling_limit_max_cu,
        "suspend_timeout_seconds": asked.suspend_timeout_seconds,
        "pg_settings": asked.settings.pg_settings if asked.settings else None,
        "pgbouncer_settings": asked.settings.pgbouncer_settings if asked.settings else None,
        "provisioner": asked.provisioner,
    }


def _rest(asked: NewEndpointBody | ChangedEndpointBody) -> dict[str, Any]:
    names = ("pooler_enabled", "pooler_mode", "disabled", "passwordless_access", "name")
    return {name: getattr(asked, name) for name in names}

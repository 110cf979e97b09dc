"""Builds a new endpoint from a request, and applies a change to an existing one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bough.config import Plan
from bough.control import defaults
from bough.domain import pooler
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType
from bough.domain.project import Project, check_autoscaling, check_suspend_timeout
from bough.errors import Invalid
from bough.ids import EndpointId, VolumeId
from bough.postgres import preload_libraries, tenant_settings

PG_SETTINGS = "pg_settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedEndpoint:
    """A request to create or change an endpoint. None means that the caller omitted the value."""

    min_cu: float | None = None
    max_cu: float | None = None
    suspend_timeout_seconds: int | None = None
    pg_settings: Mapping[str, str] | None = None  # replaces all settings
    pgbouncer_settings: Mapping[str, str] | None = None  # replaces all settings
    preload_libraries: Mapping[str, Any] | None = None  # replaces those of the project
    pooler_enabled: bool | None = None
    pooler_mode: str | None = None
    disabled: bool | None = None
    passwordless_access: bool | None = None
    provisioner: str | None = None
    name: str | None = None


def plan_endpoint(
    project: Project, branch: Branch, kind: EndpointType, requested: RequestedEndpoint, *, plan: Plan, now: datetime
) -> Endpoint:
    """Return a new endpoint with the project's defaults for omitted values. It starts unless it is disabled."""
    default_settings = project.default_endpoint_settings
    endpoint = Endpoint(
        id=EndpointId.new(),
        project_id=project.id,
        branch_id=branch.id,
        type=kind,
        state=EndpointState.INIT,
        pending_state=None if requested.disabled else EndpointState.ACTIVE,
        min_cu=default_settings["autoscaling_limit_min_cu"],
        max_cu=default_settings["autoscaling_limit_max_cu"],
        settings={
            name: default_settings[name] for name in (PG_SETTINGS, pooler.SETTINGS_KEY) if name in default_settings
        },
        pooler_enabled=False,
        disabled=False,
        passwordless_access=True,
        suspend_timeout_seconds=default_settings["suspend_timeout_seconds"],
        provisioner=project.provisioner,
        creation_source=defaults.CREATION_SOURCE,
        created_at=now,
        updated_at=now,
        volume_id=VolumeId.new() if kind is EndpointType.READ_ONLY else None,
    )
    return apply_endpoint_change(endpoint, requested, project, plan=plan, now=now)


def apply_endpoint_change(
    before: Endpoint, requested: RequestedEndpoint, project: Project, *, plan: Plan, now: datetime
) -> Endpoint:
    """Return the changed endpoint; raises an error that names an invalid value."""
    if requested.pooler_mode is not None:
        pooler.check_pool_mode("pooler_mode", requested.pooler_mode)
    pooler.check_settings(requested.pgbouncer_settings or {})
    tenant_settings.check_settings(requested.pg_settings or {}, project.pg_version)
    preload_libraries.check_settings(requested.preload_libraries, project.pg_version)
    if requested.provisioner is not None and not requested.provisioner:
        raise Invalid("provisioner is empty. Omit it to use the provisioner of the project.")
    minimum, maximum = _autoscaling_limits(before, requested, plan)
    timeout = _or_default(requested.suspend_timeout_seconds, before.suspend_timeout_seconds)
    check_suspend_timeout(timeout)
    return replace(
        before,
        min_cu=minimum,
        max_cu=maximum,
        settings=_settings(before.settings, requested),
        pooler_enabled=_or_default(requested.pooler_enabled, before.pooler_enabled),
        disabled=_or_default(requested.disabled, before.disabled),
        passwordless_access=_or_default(requested.passwordless_access, before.passwordless_access),
        suspend_timeout_seconds=timeout,
        provisioner=_or_default(requested.provisioner, before.provisioner),
        name=_or_default(requested.name, before.name),
        updated_at=now,
    )


def _autoscaling_limits(before: Endpoint, requested: RequestedEndpoint, plan: Plan) -> tuple[float, float]:
    """Return both limits. If only one is requested and it crosses the other, the other is moved with it."""
    minimum, maximum = _or_default(requested.min_cu, before.min_cu), _or_default(requested.max_cu, before.max_cu)
    if requested.min_cu is None:
        minimum = min(minimum, maximum)
    if requested.max_cu is None:
        maximum = max(minimum, maximum)
    if (minimum, maximum) != (before.min_cu, before.max_cu):
        check_autoscaling(minimum, maximum, plan.max_cu)
    return minimum, maximum


def _settings(before: Mapping[str, Any], requested: RequestedEndpoint) -> dict[str, Any]:
    replacements = {
        PG_SETTINGS: requested.pg_settings,
        pooler.SETTINGS_KEY: requested.pgbouncer_settings,
        preload_libraries.SETTINGS_KEY: requested.preload_libraries,
    }
    return {**before, **{name: dict(value) for name, value in replacements.items() if value is not None}}


def _or_default(requested: Any, default: Any) -> Any:
    return default if requested is None else requested

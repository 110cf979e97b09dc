"""What a new endpoint is when its caller said this much, and what a change makes of one that is there."""

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
from bough.postgres import tenant_settings

PG_SETTINGS = "pg_settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedEndpoint:
    """What a caller asked for; None where they said nothing."""

    min_cu: float | None = None
    max_cu: float | None = None
    suspend_timeout_seconds: int | None = None
    pg_settings: Mapping[str, str] | None = None  # all there shall be
    pgbouncer_settings: Mapping[str, str] | None = None  # all there shall be
    pooler_enabled: bool | None = None
    pooler_mode: str | None = None
    disabled: bool | None = None
    passwordless_access: bool | None = None
    provisioner: str | None = None
    name: str | None = None


def plan_endpoint(
    project: Project, branch: Branch, kind: EndpointType, requested: RequestedEndpoint, *, plan: Plan, now: datetime
) -> Endpoint:
    """A new endpoint, with the project's defaults where nothing was asked for. It starts unless it is disabled."""
    given = project.default_endpoint_settings
    like_the_project = Endpoint(
        id=EndpointId.new(),
        project_id=project.id,
        branch_id=branch.id,
        type=kind,
        state=EndpointState.INIT,
        pending_state=None if requested.disabled else EndpointState.ACTIVE,
        min_cu=given["autoscaling_limit_min_cu"],
        max_cu=given["autoscaling_limit_max_cu"],
        settings={name: given[name] for name in (PG_SETTINGS, pooler.SETTINGS_KEY) if name in given},
        pooler_enabled=False,
        disabled=False,
        passwordless_access=True,
        suspend_timeout_seconds=given["suspend_timeout_seconds"],
        provisioner=project.provisioner,
        creation_source=defaults.CREATION_SOURCE,
        created_at=now,
        updated_at=now,
        volume_id=VolumeId.new() if kind is EndpointType.READ_ONLY else None,
    )
    return apply_endpoint_change(like_the_project, requested, project, plan=plan, now=now)


def apply_endpoint_change(
    before: Endpoint, requested: RequestedEndpoint, project: Project, *, plan: Plan, now: datetime
) -> Endpoint:
    """The endpoint as it shall be, or an error that says what cannot be."""
    if requested.pooler_mode is not None:
        pooler.check_pool_mode("pooler_mode", requested.pooler_mode)
    pooler.check_settings(requested.pgbouncer_settings or {})
    tenant_settings.check_settings(requested.pg_settings or {}, project.pg_version)
    if requested.provisioner is not None and not requested.provisioner:
        raise Invalid("provisioner is empty; leave it out for the project's own.")
    minimum, maximum = _autoscaling_limits(before, requested, plan)
    timeout = _either(requested.suspend_timeout_seconds, before.suspend_timeout_seconds)
    check_suspend_timeout(timeout)
    return replace(
        before,
        min_cu=minimum,
        max_cu=maximum,
        settings=_settings(before.settings, requested),
        pooler_enabled=_either(requested.pooler_enabled, before.pooler_enabled),
        disabled=_either(requested.disabled, before.disabled),
        passwordless_access=_either(requested.passwordless_access, before.passwordless_access),
        suspend_timeout_seconds=timeout,
        provisioner=_either(requested.provisioner, before.provisioner),
        name=_either(requested.name, before.name),
        updated_at=now,
    )


def _autoscaling_limits(before: Endpoint, wish: RequestedEndpoint, plan: Plan) -> tuple[float, float]:
    """One limit alone takes the other with it, when that would be on the wrong side."""
    minimum, maximum = _either(wish.min_cu, before.min_cu), _either(wish.max_cu, before.max_cu)
    if wish.min_cu is None:
        minimum = min(minimum, maximum)
    if wish.max_cu is None:
        maximum = max(minimum, maximum)
    if (minimum, maximum) != (before.min_cu, before.max_cu):
        check_autoscaling(minimum, maximum, plan.max_cu)
    return minimum, maximum


def _settings(before: Mapping[str, Any], wish: RequestedEndpoint) -> dict[str, Any]:
    asked = {PG_SETTINGS: wish.pg_settings, pooler.SETTINGS_KEY: wish.pgbouncer_settings}
    return {**before, **{name: dict(value) for name, value in asked.items() if value is not None}}


def _either(asked: Any, otherwise: Any) -> Any:
    return otherwise if asked is None else asked

"""Builds a new project from a request, and applies a change to an existing one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bough import clock
from bough.config import Plan
from bough.control import defaults
from bough.control.context import Context
from bough.control.endpoints.plan import PG_SETTINGS
from bough.domain import audit_level, maintenance_window, pooler
from bough.domain.organization import Organization
from bough.domain.project import Project, check_autoscaling, check_settings_change, check_suspend_timeout
from bough.errors import Invalid, RuleViolation
from bough.ids import OrganizationId, ProjectId
from bough.postgres import preload_libraries, tenant_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedProject:
    """A request for a new project. None means that the caller omitted the value."""

    name: str | None = None
    org_id: OrganizationId | None = None
    region_id: str | None = None
    pg_version: int | None = None
    provisioner: str | None = None
    store_passwords: bool = True
    history_retention_seconds: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    default_endpoint_settings: Mapping[str, Any] = field(default_factory=dict)
    branch_name: str | None = None
    role_name: str | None = None
    database_name: str | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChange:
    name: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    default_endpoint_settings: Mapping[str, Any] | None = None
    history_retention_seconds: int | None = None


def plan_project(
    context: Context, project_id: ProjectId, requested: RequestedProject, organization: Organization
) -> Project:
    plan = context.organization_plan(organization)
    now = clock.now()
    installs = context.services.engine.capabilities().installs
    pg_version = _version(context, installs, requested.pg_version)
    _check_endpoint_settings(requested.default_endpoint_settings, pg_version)
    preload_libraries.check_settings(requested.settings.get(preload_libraries.SETTINGS_KEY), pg_version)
    audit_level.check_settings(requested.settings, pg_version)
    endpoint_settings = _endpoint_settings(requested.default_endpoint_settings, plan)
    return Project(
        id=project_id,
        org_id=organization.id,
        created_by=context.principal.user_id,
        name=requested.name or project_id,
        region_id=_region(context, requested.region_id),
        pg_version=pg_version,
        install=installs[pg_version],
        provisioner=requested.provisioner or defaults.PROVISIONER,
        settings=_without_removed({**_default_settings(context, project_id, plan), **requested.settings}),
        default_endpoint_settings=endpoint_settings,
        store_passwords=requested.store_passwords,
        history_retention_seconds=_history(
            requested.history_retention_seconds, defaults.HISTORY_RETENTION_SECONDS, plan
        ),
        creation_source=defaults.CREATION_SOURCE,
        created_at=now,
        updated_at=now,
    )


def _default_settings(context: Context, project_id: ProjectId, plan: Plan) -> dict[str, Any]:
    settings = context.services.settings
    window = maintenance_window.choose_default(
        project_id, plan.quiet_weekdays or settings.quiet_weekdays, plan.quiet_hours or settings.quiet_hours
    )
    return {**defaults.PROJECT_SETTINGS, maintenance_window.SETTINGS_KEY: window.to_settings()}


def apply_project_change(before: Project, change: ProjectChange, plan: Plan) -> Project:
    check_settings_change(before.settings, change.settings)
    preload_libraries.check_settings(change.settings.get(preload_libraries.SETTINGS_KEY), before.pg_version)
    audit_level.check_settings(change.settings, before.pg_version)
    endpoint_settings = before.default_endpoint_settings
    if change.default_endpoint_settings is not None:
        _check_endpoint_settings(change.default_endpoint_settings, before.pg_version)
        endpoint_settings = _endpoint_settings({**endpoint_settings, **change.default_endpoint_settings}, plan)
    return replace(
        before,
        name=change.name or before.name,
        settings=_merged(before.settings, change.settings),
        default_endpoint_settings=endpoint_settings,
        history_retention_seconds=_history(change.history_retention_seconds, before.history_retention_seconds, plan),
        updated_at=clock.now(),
    )


def _check_endpoint_settings(settings: Mapping[str, Any], pg_version: int) -> None:
    pooler.check_settings(settings.get(pooler.SETTINGS_KEY, {}))
    tenant_settings.check_settings(settings.get(PG_SETTINGS, {}), pg_version)


def _region(context: Context, region_id: str | None) -> str:
    regions = context.services.settings.regions
    if region_id is None:
        return regions[0].id
    if context.services.settings.region(region_id) is None:
        known = ", ".join(region.id for region in regions)
        raise Invalid(f"There is no region {region_id!r} here. Regions: {known}.")
    return region_id


def _version(context: Context, installs: Mapping[int, str], pg_version: int | None) -> int:
    version = pg_version or context.services.settings.postgres_versions[0]
    if version not in installs:
        known = ", ".join(str(major) for major in sorted(installs))
        raise Invalid(
            f"Postgres {version} is not installed here; available: {known}. "
            "The operator can add it with the setting postgres_versions."
        )
    return version


def _merged(before: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the change into the settings. Nested groups are merged too, so omitted values stay."""
    merged = dict(before)
    for name, value in change.items():
        known = before.get(name)
        merged[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return _without_removed(merged)


def _without_removed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """None removes a setting."""
    return {name: value for name, value in settings.items() if value is not None}


def _endpoint_settings(requested: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the complete, checked defaults for the project's endpoints."""
    minimum = requested.get("autoscaling_limit_min_cu")
    maximum = requested.get("autoscaling_limit_max_cu")
    if minimum is None:
        minimum = defaults.MIN_CU if maximum is None else min(defaults.MIN_CU, maximum)
    if maximum is None:
        maximum = max(defaults.MAX_CU, minimum)
    timeout = requested.get("suspend_timeout_seconds", defaults.SUSPEND_TIMEOUT_SECONDS)
    check_autoscaling(minimum, maximum, plan.max_cu)
    check_suspend_timeout(timeout)
    return {
        **requested,
        "autoscaling_limit_min_cu": minimum,
        "autoscaling_limit_max_cu": maximum,
        "suspend_timeout_seconds": timeout,
    }


def _history(requested: int | None, default: int, plan: Plan) -> int:
    if requested is None:
        return min(default, plan.history_seconds)
    if requested > plan.history_seconds:
        raise RuleViolation(f"history_retention_seconds is {requested}; the plan allows up to {plan.history_seconds}.")
    return requested

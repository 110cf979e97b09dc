"""Update a project: its name, settings, endpoint defaults and history retention."""

from bough import clock
from bough.access import lookup
from bough.control.context import Context
from bough.control.projects import maintenance
from bough.control.projects.plan import ProjectChange, apply_project_change
from bough.domain import audit_level
from bough.domain.audit_level import AuditLevel
from bough.domain.endpoint import EndpointState, request_state
from bough.domain.locks import LockScope
from bough.domain.operation import Operation
from bough.domain.project import ACCESS_SETTINGS, Project
from bough.domain.quota import SETTINGS_KEY
from bough.domain.rights import Right
from bough.operations.action import NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.apply_history_retention import ApplyHistoryRetention
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.postgres import preload_libraries
from bough.store.store import Rows


async def update_project(context: Context, project: Project, change: ProjectChange) -> tuple[Project, list[Operation]]:
    async with context.locked_transaction(LockScope.project(project.id)) as rows:
        before = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        after = apply_project_change(before, change, await context.load_project_plan(rows, before))
        await rows.projects.save(after)
        await maintenance.follow_window(rows, before, after, context.services.settings)
        operations: list[Operation] = []
        if _audit_level(after) != _audit_level(before):
            context.audit.add_details(audit_log_level=_audit_level(after) or "none")
        if _needs_config(before) != _needs_config(after):
            operations = await _apply_everywhere(context, rows, after)
        if after.history_retention_seconds != before.history_retention_seconds:
            operations += await context.enqueue(rows, NewOperation(ApplyHistoryRetention, project.id))
        has_new_quota = after.settings.get(SETTINGS_KEY) != before.settings.get(SETTINGS_KEY)
        if has_new_quota:
            operations += await _apply_quota(context, rows, after)
        is_seen_by_gateways = has_new_quota or _changes_access(before, after)
        endpoints = await rows.endpoints.list_in_project(project.id) if is_seen_by_gateways else []
    await context.invalidate_endpoints(*(each.id for each in endpoints))
    if has_new_quota:
        context.services.activity.mark_unmeasured(each.id for each in endpoints)
    return after, operations


async def _apply_quota(context: Context, rows: Rows, project: Project) -> list[Operation]:
    """Judge the project now, and suspend its computes if it has used up its new quota."""
    await context.services.quotas.judge(rows, [project.id], clock.now())
    operations: list[Operation] = []
    for endpoint in await rows.project_limits.list_running(project.id):
        await rows.endpoints.save(request_state(endpoint, EndpointState.IDLE, clock.now()))
        operations += await context.enqueue(rows, NewOperation.for_endpoint(SuspendCompute, endpoint))
    return operations


def _needs_config(project: Project) -> tuple[object, ...]:
    """Return the settings that running computes are told about. Libraries apply from their next start only."""
    libraries = project.settings.get(preload_libraries.SETTINGS_KEY)
    return project.has_logical_replication, _audit_level(project), libraries


def _audit_level(project: Project) -> AuditLevel | None:
    return audit_level.read_level(project.settings, project.pg_version)


def _changes_access(before: Project, after: Project) -> bool:
    """Return whether gateways have to ask again which networks may connect."""
    return any(before.settings.get(name) != after.settings.get(name) for name in ACCESS_SETTINGS)


async def _apply_everywhere(context: Context, rows: Rows, project: Project) -> list[Operation]:
    active = [each for each in await rows.endpoints.list_in_project(project.id) if each.state is EndpointState.ACTIVE]
    operations: list[Operation] = []
    for endpoint in active:
        operations += await context.enqueue(rows, NewOperation.for_endpoint(ApplyConfig, endpoint))
    return operations

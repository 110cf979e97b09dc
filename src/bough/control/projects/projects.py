"""Projects: create, update, delete, recover."""

from dataclasses import dataclass, replace

from bough import clock
from bough.access import lookup
from bough.control.branches import new_rows
from bough.control.context import Context
from bough.control.endpoints.plan import RequestedEndpoint, plan_endpoint
from bough.control.projects import maintenance, quota
from bough.control.projects.plan import ProjectChange, RequestedProject, apply_project_change, plan_project
from bough.domain import branch as branches
from bough.domain.branch import Branch
from bough.domain.database import Database
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, request_state
from bough.domain.locks import LockScope
from bough.domain.operation import Operation
from bough.domain.organization import Organization
from bough.domain.project import Project, check_recoverable, recovery_deadline
from bough.domain.rights import OrgRight, Right
from bough.domain.role import Role
from bough.errors import RuleViolation
from bough.ids import OrganizationId, ProjectId
from bough.operations.action import NewOperation
from bough.operations.actions.apply_config import ApplyConfig
from bough.operations.actions.apply_history_retention import ApplyHistoryRetention
from bough.operations.actions.create_root_branch import CreateRootBranch
from bough.operations.actions.start_compute import StartCompute
from bough.operations.actions.suspend_compute import SuspendCompute
from bough.operations.archival import plan_unarchive_by_id
from bough.postgres import preload_libraries
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedProject:
    project: Project
    branch: Branch
    endpoint: Endpoint
    role: Role
    password: str
    database: Database
    operations: list[Operation]
    creator_name: str | None


async def create_project(context: Context, requested: RequestedProject) -> CreatedProject:
    """Add the project, its root branch, role, database and endpoint, and the operations in one transaction."""
    organization = _owner(context, requested.org_id)
    context.check_can_create()
    project_id = ProjectId.new()
    async with context.locked_transaction(LockScope.project(project_id)) as rows:
        created = await add_project(context, rows, project_id, requested, organization)
    await context.services.hostnames.publish(created.endpoint.id, created.project.region_id)
    return created


async def add_project(
    context: Context, rows: Rows, project_id: ProjectId, requested: RequestedProject, organization: Organization
) -> CreatedProject:
    """Add the rows and operations in the caller's transaction. The caller publishes the hostname afterwards."""
    await _check_quota(context, rows, organization)
    project = plan_project(context, project_id, requested, organization)
    context.audit.add_details(org_id=organization.id, project_id=project_id, name=project.name)
    credentials = new_rows.generate_credentials()
    await rows.projects.add(project)
    branch = new_rows.new_branch(
        project,
        requested.branch_name or branches.DEFAULT_NAME,
        project.created_at,
        is_default=True,
        annotations=dict(requested.annotations),
    )
    await new_rows.add_branch_rows(rows, branch)
    plan = context.organization_plan(organization)
    endpoint = plan_endpoint(
        project, branch, EndpointType.READ_WRITE, RequestedEndpoint(), plan=plan, now=project.created_at
    )
    await rows.endpoints.add(endpoint)
    vault = context.services.vault if project.store_passwords else None
    role = await new_rows.add_first_role(rows, branch, requested.role_name, await credentials, vault)
    database = await new_rows.add_first_database(rows, branch, requested.database_name, role)
    creator = await rows.users.get(project.created_by)
    operations = await context.enqueue(
        rows,
        NewOperation(CreateRootBranch, project.id, branch.id),
        NewOperation(StartCompute, project.id, branch.id, endpoint.id),
    )
    return CreatedProject(
        project=project,
        branch=branch,
        endpoint=endpoint,
        role=role,
        password=(await credentials).password,
        database=database,
        operations=operations,
        creator_name=creator.name if creator else None,
    )


async def update_project(context: Context, project: Project, change: ProjectChange) -> tuple[Project, list[Operation]]:
    async with context.locked_transaction(LockScope.project(project.id)) as rows:
        before = await lookup.project(rows, context.principal, project.id, right=Right.WRITE)
        after = apply_project_change(before, change, await context.load_project_plan(rows, before))
        await rows.projects.save(after)
        await maintenance.follow_window(rows, before, after, context.services.settings)
        operations: list[Operation] = []
        if _needs_config(before) != _needs_config(after):
            operations = await _apply_everywhere(context, rows, after)
        if after.history_retention_seconds != before.history_retention_seconds:
            operations += await context.enqueue(rows, NewOperation(ApplyHistoryRetention, project.id))
    return after, operations


async def delete_project(context: Context, project: Project) -> Project:
    """Stop the project's computes now. Its data stays until the project can no longer be recovered."""
    async with context.locked_transaction(LockScope.project(project.id)) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.DELETE)
        if any(branch.is_protected for branch in await rows.branches.list_in_project(project.id)):
            raise RuleViolation("The project has a protected branch. Unprotect it first, then delete the project.")
        deleted, suspends = await delete_project_rows(rows, project, context.services.settings.recoverable_seconds)
        for suspend in suspends:
            await context.enqueue(rows, suspend)
    return deleted


async def recover_project(context: Context, project: Project) -> Project:
    """Recover the project with its snapshots and history, and start the endpoint of its default branch."""
    async with context.locked_transaction(LockScope.project(project.id)) as rows:
        project = await lookup.project(rows, context.principal, project.id, right=Right.DELETE, include_deleted=True)
        now = clock.now()
        check_recoverable(project, now)
        await _check_quota(context, rows, await lookup.organization_of(rows, context.principal, project))
        recovered = replace(project, deleted_at=None, recoverable_until=None, updated_at=now)
        await rows.projects.save(recovered)
        default = await rows.branches.get_default(project.id)
        endpoint = await rows.endpoints.get_read_write(default.id) if default else None
        if endpoint:
            await rows.endpoints.save(request_state(endpoint, EndpointState.ACTIVE, now))
            first = await plan_unarchive_by_id(rows, project.id, endpoint.branch_id)
            await context.enqueue(rows, *first, NewOperation.for_endpoint(StartCompute, endpoint))
    if endpoint:
        await context.services.hostnames.publish(endpoint.id, project.region_id)
    return recovered


def _owner(context: Context, org_id: OrganizationId | None) -> Organization:
    principal = context.principal
    return principal.organization(org_id or principal.default_organization().id, right=OrgRight.CREATE_PROJECTS)


async def _check_quota(context: Context, rows: Rows, organization: Organization) -> None:
    await quota.check_project_quota(rows, organization, context.organization_plan(organization))


def _needs_config(project: Project) -> tuple[object, ...]:
    """Return the settings that running computes are told about. Libraries apply from their next start only."""
    return project.has_logical_replication, project.settings.get(preload_libraries.SETTINGS_KEY)


async def _apply_everywhere(context: Context, rows: Rows, project: Project) -> list[Operation]:
    active = [each for each in await rows.endpoints.list_in_project(project.id) if each.state is EndpointState.ACTIVE]
    operations: list[Operation] = []
    for endpoint in active:
        operations += await context.enqueue(rows, NewOperation.for_endpoint(ApplyConfig, endpoint))
    return operations


async def delete_project_rows(
    rows: Rows, project: Project, recoverable_seconds: int
) -> tuple[Project, list[NewOperation]]:
    """Mark the project as deleted; return it with the operations that stop its computes."""
    now = clock.now()
    until = recovery_deadline(now, recoverable_seconds)
    deleted = replace(project, deleted_at=now, recoverable_until=until, updated_at=now)
    await rows.projects.save(deleted)
    endpoints = await rows.endpoints.list_in_project(project.id)
    for endpoint in endpoints:
        await rows.endpoints.save(request_state(endpoint, EndpointState.IDLE, now))
    return deleted, [NewOperation.for_endpoint(SuspendCompute, endpoint) for endpoint in endpoints]

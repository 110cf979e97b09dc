"""Projects: create, change, delete, recover."""

from dataclasses import dataclass, replace

from bough import clock
from bough.access import lookup
from bough.control import plan_room, seeding
from bough.control.archiving import ensure_usable
from bough.control.desk import Desk
from bough.control.endpoint_planning import EndpointWish, planned
from bough.control.project_planning import NewProject, ProjectChange, changed_project, planned_project
from bough.domain import branch as branches
from bough.domain.branch import Branch
from bough.domain.database import Database
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, wishing
from bough.domain.operation import Operation, OperationAction, Reach, Touch
from bough.domain.organization import Organization
from bough.domain.project import Project, check_recoverable, recovery_window
from bough.domain.rights import OrgRight, Right
from bough.domain.role import Role
from bough.errors import RuleBroken
from bough.ids import OrganizationId, ProjectId
from bough.operations.action import Wish
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
    creator: str | None  # the name of who made it


class Projects:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, wish: NewProject) -> CreatedProject:
        """One transaction: the project, its root branch with role and database, its endpoint, and the work."""
        organization = self._owner(wish.org_id)
        self._desk.check_makes_new()
        project_id = ProjectId.new()
        async with self._desk.turn(Touch(reach=Reach.PROJECT, project_id=project_id)) as rows:
            created = await self.add(rows, project_id, wish, organization)
        await self._desk.names.announce(created.endpoint.id, created.project.region_id)
        return created

    async def add(
        self, rows: Rows, project_id: ProjectId, wish: NewProject, organization: Organization
    ) -> CreatedProject:
        """Its rows and the work, in a transaction that its caller began. Its host is to be announced afterwards."""
        await self._check_room(rows, organization)
        project = planned_project(self._desk, project_id, wish, organization)
        self._desk.record.about(org_id=organization.id, project_id=project_id, name=project.name)
        secret = seeding.new_secret()
        await rows.projects.add(project)
        branch = seeding.new_branch(
            project,
            wish.branch_name or branches.DEFAULT_NAME,
            project.created_at,
            is_default=True,
            annotations=dict(wish.annotations),
        )
        await seeding.plant(rows, branch)
        plan = self._desk.plan_of(organization)
        endpoint = planned(project, branch, EndpointType.READ_WRITE, EndpointWish(), plan=plan, now=project.created_at)
        await rows.endpoints.add(endpoint)
        vault = self._desk.vault if project.store_passwords else None
        role = await seeding.first_role(rows, branch, wish.role_name, await secret, vault)
        database = await seeding.first_database(rows, branch, wish.database_name, role)
        creator = await rows.users.get(project.created_by)
        operations = await self._desk.enqueue(
            rows,
            Wish(OperationAction.CREATE_TIMELINE, project.id, branch.id),
            Wish(OperationAction.START_COMPUTE, project.id, branch.id, endpoint.id),
        )
        return CreatedProject(
            project=project,
            branch=branch,
            endpoint=endpoint,
            role=role,
            password=(await secret).password,
            database=database,
            operations=operations,
            creator=creator.name if creator else None,
        )

    async def change(self, held: Project, change: ProjectChange) -> tuple[Project, list[Operation]]:
        async with self._desk.turn(Touch(reach=Reach.PROJECT, project_id=held.id)) as rows:
            before = await lookup.project(rows, self._desk.principal, held.id, to=Right.WRITE)
            after = changed_project(before, change, await self._desk.plan_for(rows, before))
            await rows.projects.save(after)
            operations: list[Operation] = []
            if after.logical_replication != before.logical_replication:
                operations = await self._apply_everywhere(rows, after)
            if after.history_retention_seconds != before.history_retention_seconds:
                operations += await self._desk.enqueue(rows, Wish(OperationAction.APPLY_STORAGE_CONFIG, held.id))
        return after, operations

    async def delete(self, held: Project) -> Project:
        """Its computes stop at once; its data stays until it can no longer be recovered."""
        async with self._desk.turn(Touch(reach=Reach.PROJECT, project_id=held.id)) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.DELETE)
            if any(branch.is_protected for branch in await rows.branches.of_project(held.id)):
                raise RuleBroken("The project has a protected branch. Unprotect it first, then delete the project.")
            deleted, rests = await retire(rows, project, self._desk.settings.recoverable_seconds)
            for wish in rests:
                await self._desk.enqueue(rows, wish)
        return deleted

    async def recover(self, held: Project) -> Project:
        """The project comes back whole, with snapshots and history, and the endpoint of its default branch starts."""
        async with self._desk.turn(Touch(reach=Reach.PROJECT, project_id=held.id)) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.DELETE, deleted=True)
            now = clock.now()
            check_recoverable(project, now)
            await self._check_room(rows, await lookup.organization_of(rows, self._desk.principal, project))
            recovered = replace(project, deleted_at=None, recoverable_until=None, updated_at=now)
            await rows.projects.save(recovered)
            default = await rows.branches.default(held.id)
            endpoint = await rows.endpoints.read_write(default.id) if default else None
            if endpoint:
                await rows.endpoints.save(wishing(endpoint, EndpointState.ACTIVE, now))
                first = await ensure_usable(rows, project.id, endpoint.branch_id)
                await self._desk.enqueue(rows, *first, _wish(OperationAction.START_COMPUTE, endpoint))
        if endpoint:
            await self._desk.names.announce(endpoint.id, project.region_id)
        return recovered

    def _owner(self, org_id: OrganizationId | None) -> Organization:
        principal = self._desk.principal
        return principal.organization(org_id or principal.home().id, to=OrgRight.CREATE_PROJECTS)

    async def _check_room(self, rows: Rows, organization: Organization) -> None:
        await plan_room.check_projects(rows, organization, self._desk.plan_of(organization))

    async def _apply_everywhere(self, rows: Rows, project: Project) -> list[Operation]:
        active = [one for one in await rows.endpoints.of_project(project.id) if one.state is EndpointState.ACTIVE]
        operations: list[Operation] = []
        for endpoint in active:
            operations += await self._desk.enqueue(rows, _wish(OperationAction.APPLY_CONFIG, endpoint))
        return operations


async def retire(rows: Rows, project: Project, recoverable_seconds: int) -> tuple[Project, list[Wish]]:
    """The project as it is deleted, and the work that stops its computes."""
    now = clock.now()
    until = recovery_window(now, recoverable_seconds)
    deleted = replace(project, deleted_at=now, recoverable_until=until, updated_at=now)
    await rows.projects.save(deleted)
    endpoints = await rows.endpoints.of_project(project.id)
    for endpoint in endpoints:
        await rows.endpoints.save(wishing(endpoint, EndpointState.IDLE, now))
    return deleted, [_wish(OperationAction.SUSPEND_COMPUTE, endpoint) for endpoint in endpoints]


def _wish(action: OperationAction, endpoint: Endpoint) -> Wish:
    return Wish(action, endpoint.project_id, endpoint.branch_id, endpoint.id)

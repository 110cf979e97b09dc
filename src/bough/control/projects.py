"""Projects: create, change, delete, recover."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bough import clock
from bough.access import lookup
from bough.access.principal import Right
from bough.config import Plan
from bough.control import defaults, seeding
from bough.control.desk import Desk
from bough.control.endpoint_planning import PG_SETTINGS, EndpointWish, planned
from bough.domain import branch as branches
from bough.domain import pooler
from bough.domain.branch import Branch
from bough.domain.database import Database
from bough.domain.endpoint import Endpoint, EndpointState, EndpointType, wishing
from bough.domain.operation import Operation, OperationAction, Reach, Touch
from bough.domain.organization import Organization
from bough.domain.project import (
    Project,
    check_autoscaling,
    check_recoverable,
    check_settings_change,
    check_suspend_timeout,
    recovery_window,
)
from bough.domain.role import Role
from bough.errors import Denied, Invalid, RuleBroken
from bough.ids import OrganizationId, ProjectId
from bough.operations.action import Wish
from bough.postgres import tenant_settings
from bough.store.store import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """What a caller asked for; None where they said nothing."""

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
        if self._desk.principal.project_id is not None:
            raise Denied("A project-scoped API key cannot create projects.")
        self._desk.check_makes_new()
        project_id = ProjectId.new()
        async with self._desk.turn(Touch(reach=Reach.PROJECT, project_id=project_id)) as rows:
            organization = self._desk.principal.organization(wish.org_id)
            await self._check_room(rows, organization)
            project = self._planned(project_id, wish, organization)
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
            endpoint = planned(
                project, branch, EndpointType.READ_WRITE, EndpointWish(), plan=plan, now=project.created_at
            )
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
        await self._desk.names.announce(endpoint.id, project.region_id)
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
            organization = self._desk.principal.organization(before.org_id)
            after = self._changed(before, change, self._desk.plan_of(organization))
            await rows.projects.save(after)
            operations: list[Operation] = []
            if after.logical_replication != before.logical_replication:
                operations = await self._apply_everywhere(rows, after)
        return after, operations

    async def delete(self, held: Project) -> Project:
        """Its computes stop at once; its data stays until it can no longer be recovered."""
        async with self._desk.turn(Touch(reach=Reach.PROJECT, project_id=held.id)) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.DELETE)
            if any(branch.is_protected for branch in await rows.branches.of_project(held.id)):
                raise RuleBroken("The project has a protected branch. Unprotect it first, then delete the project.")
            now = clock.now()
            until = recovery_window(now, self._desk.settings.recoverable_seconds)
            deleted = replace(project, deleted_at=now, recoverable_until=until, updated_at=now)
            await rows.projects.save(deleted)
            for endpoint in await rows.endpoints.of_project(held.id):
                await rows.endpoints.save(wishing(endpoint, EndpointState.IDLE, now))
                await self._desk.enqueue(rows, _wish(OperationAction.SUSPEND_COMPUTE, endpoint))
        return deleted

    async def recover(self, held: Project) -> Project:
        """The project comes back whole, and the endpoint of its default branch starts."""
        async with self._desk.turn(Touch(reach=Reach.PROJECT, project_id=held.id)) as rows:
            project = await lookup.project(rows, self._desk.principal, held.id, to=Right.DELETE, deleted=True)
            now = clock.now()
            check_recoverable(project, now)
            organization = self._desk.principal.organization(project.org_id)
            await self._check_room(rows, organization)
            recovered = replace(project, deleted_at=None, recoverable_until=None, updated_at=now)
            await rows.projects.save(recovered)
            default = await rows.branches.default(held.id)
            endpoint = await rows.endpoints.read_write(default.id) if default else None
            if endpoint:
                await rows.endpoints.save(wishing(endpoint, EndpointState.ACTIVE, now))
                await self._desk.enqueue(rows, _wish(OperationAction.START_COMPUTE, endpoint))
        if endpoint:
            await self._desk.names.announce(endpoint.id, project.region_id)
        return recovered

    async def _check_room(self, rows: Rows, organization: Organization) -> None:
        limit = self._desk.plan_of(organization).projects
        if await rows.projects.count_in(organization.id) >= limit:
            raise RuleBroken(
                f"The organization has {limit} projects, all that its plan allows. Delete one, or change the plan.",
                code="PROJECTS_LIMIT_EXCEEDED",
            )

    async def _apply_everywhere(self, rows: Rows, project: Project) -> list[Operation]:
        active = [one for one in await rows.endpoints.of_project(project.id) if one.state is EndpointState.ACTIVE]
        operations: list[Operation] = []
        for endpoint in active:
            operations += await self._desk.enqueue(rows, _wish(OperationAction.APPLY_CONFIG, endpoint))
        return operations

    def _planned(self, project_id: ProjectId, wish: NewProject, organization: Organization) -> Project:
        plan = self._desk.plan_of(organization)
        now = clock.now()
        self._check_endpoint_settings(wish.default_endpoint_settings, self._version(wish.pg_version))
        endpoint_settings = _endpoint_settings(wish.default_endpoint_settings, plan)
        return Project(
            id=project_id,
            org_id=organization.id,
            created_by=self._desk.principal.user_id,
            name=wish.name or project_id,
            region_id=self._region(wish.region_id),
            pg_version=self._version(wish.pg_version),
            install=self._desk.installs[self._version(wish.pg_version)],
            provisioner=wish.provisioner or defaults.PROVISIONER,
            settings={**defaults.PROJECT_SETTINGS, **wish.settings},
            default_endpoint_settings=endpoint_settings,
            store_passwords=wish.store_passwords,
            history_retention_seconds=_history(wish.history_retention_seconds, defaults.HISTORY_SECONDS, plan),
            creation_source=defaults.CREATION_SOURCE,
            created_at=now,
            updated_at=now,
        )

    def _changed(self, before: Project, change: ProjectChange, plan: Plan) -> Project:
        check_settings_change(before.settings, change.settings)
        endpoint_settings = before.default_endpoint_settings
        if change.default_endpoint_settings is not None:
            self._check_endpoint_settings(change.default_endpoint_settings, before.pg_version)
            endpoint_settings = _endpoint_settings({**endpoint_settings, **change.default_endpoint_settings}, plan)
        return replace(
            before,
            name=change.name or before.name,
            settings=_merged(before.settings, change.settings),
            default_endpoint_settings=endpoint_settings,
            history_retention_seconds=_history(
                change.history_retention_seconds, before.history_retention_seconds, plan
            ),
            updated_at=clock.now(),
        )

    def _check_endpoint_settings(self, given: Mapping[str, Any], pg_version: int) -> None:
        pooler.check(given.get(pooler.SETTINGS, {}))
        tenant_settings.check(given.get(PG_SETTINGS, {}), pg_version)

    def _region(self, region_id: str | None) -> str:
        regions = self._desk.settings.regions
        if region_id is None:
            return regions[0].id
        if self._desk.settings.region(region_id) is None:
            known = ", ".join(region.id for region in regions)
            raise Invalid(f"There is no region {region_id!r} here. Regions: {known}.")
        return region_id

    def _version(self, pg_version: int | None) -> int:
        version = pg_version or self._desk.settings.postgres_versions[0]
        if version not in self._desk.installs:
            known = ", ".join(str(major) for major in sorted(self._desk.installs))
            raise Invalid(
                f"Postgres {version} is not installed here; available: {known}. "
                "The operator can add it with the setting postgres_versions."
            )
        return version


def _wish(action: OperationAction, endpoint: Endpoint) -> Wish:
    return Wish(action, endpoint.project_id, endpoint.branch_id, endpoint.id)


def _merged(before: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Inside a group of settings, too, what is not said stays as it was."""
    merged = dict(before)
    for name, value in change.items():
        known = before.get(name)
        merged[name] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def _endpoint_settings(given: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """Defaults for endpoints made in the project, whole and checked."""
    minimum = given.get("autoscaling_limit_min_cu")
    maximum = given.get("autoscaling_limit_max_cu")
    if minimum is None:
        minimum = defaults.MIN_CU if maximum is None else min(defaults.MIN_CU, maximum)
    if maximum is None:
        maximum = max(defaults.MAX_CU, minimum)
    timeout = given.get("suspend_timeout_seconds", defaults.SUSPEND_TIMEOUT)
    check_autoscaling(minimum, maximum, plan.max_cu)
    check_suspend_timeout(timeout)
    return {
        **given,
        "autoscaling_limit_min_cu": minimum,
        "autoscaling_limit_max_cu": maximum,
        "suspend_timeout_seconds": timeout,
    }


def _history(asked: int | None, otherwise: int, plan: Plan) -> int:
    if asked is None:
        return min(otherwise, plan.history_seconds)
    if asked > plan.history_seconds:
        raise RuleBroken(f"history_retention_seconds is {asked}; the plan allows up to {plan.history_seconds}.")
    return asked

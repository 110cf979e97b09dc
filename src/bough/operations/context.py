"""What the steps of an action work with: the store, the engine, the gateways."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from bough import log
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.history import HEAD, RecoveryTarget
from bough.domain.locks import LockScope
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.domain.quota import storage_limit
from bough.engine.port import (
    BranchContents,
    BranchEngine,
    BuildInspection,
    ComputeEngine,
    Engine,
    EngineError,
    EngineInspection,
    HistoryEngine,
)
from bough.engine.spec import BranchSpec, ComputeSpec, build_branch_spec, build_compute_spec
from bough.errors import NotFound
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations import contents_inspection
from bough.operations.contents_inspection import ContentsInspection, PlanLookup
from bough.operations.gateway_port import GatewayPort, NoGateway
from bough.store.store import Rows, Store

T = TypeVar("T")
logger = log.get_logger(component="operations")


class ActionContext:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        operation: Operation,
        *,
        lock_of: Callable[[Operation], LockScope],
        gateways: GatewayPort | None = None,
        get_plan: PlanLookup | None = None,
    ) -> None:
        self._store = store
        self._get_plan = get_plan
        self.gateways: GatewayPort = gateways or NoGateway()
        self.branch_engine: BranchEngine = engine
        self.compute_engine: ComputeEngine = engine
        self.history_engine: HistoryEngine = engine
        self.engine_inspection: EngineInspection = engine
        self.build_inspection: BuildInspection = engine
        self.lock_of = lock_of
        self._operation = operation

    def read(self) -> AbstractAsyncContextManager[Rows]:
        return self._store.read()

    async def inspect_contents(self, endpoint: Endpoint) -> ContentsInspection | None:
        """Inspect a compute before it stops; None when it does not run or cannot be queried."""
        try:
            return await contents_inspection.inspect_contents(
                self._store, self.engine_inspection, endpoint, self._get_plan
            )
        except EngineError as error:
            logger.warning("contents_not_read", endpoint_id=endpoint.id, reason=error.public_message)
            return None

    async def inspect_volume(self, spec: BranchSpec, branch_id: BranchId) -> BranchContents:
        """Read the roles and databases of a volume, up to the limits of the branch that gets it."""
        async with self.read() as rows:
            own = await contents_inspection.load_contents(rows, branch_id)
            plan = await rows.organizations.get_plan_of_project(spec.project_id) if self._get_plan else None
        return await self.branch_engine.read_branch_contents(
            spec, contents_inspection.build_contents_query(own, self._get_plan, plan)
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Rows]:
        """Open a transaction that fails when the lease is lost. Its writes must be repeatable, like the step itself."""
        async with self._store.transaction(durable=False) as rows:
            await rows.operations.check_lease(self._operation.id, self._operation.fence)
            yield rows

    async def get_project(self, project_id: ProjectId) -> Project:
        async with self.read() as rows:
            return require_found(await rows.projects.get(project_id), "project")

    async def get_branch(self, project_id: ProjectId, branch_id: BranchId) -> Branch:
        async with self.read() as rows:
            return require_found(await rows.branches.get(project_id, branch_id), "branch")

    async def get_endpoint(self, endpoint_id: EndpointId) -> Endpoint:
        async with self.read() as rows:
            return require_found(await rows.endpoints.get(endpoint_id), "endpoint")

    async def build_branch_spec(
        self, project_id: ProjectId, branch_id: BranchId, target: RecoveryTarget | None = None
    ) -> BranchSpec:
        """Without a target the branch starts with everything that its parent has, if it has a parent."""
        async with self.read() as rows:
            project = require_found(await rows.projects.get(project_id), "project")
            branch = require_found(await rows.branches.get(project_id, branch_id), "branch")
            endpoint = await rows.endpoints.get_read_write(branch_id)
            parent = await rows.branches.get(project_id, branch.parent_id) if branch.parent_id else None
        if target is None and parent is not None:
            target = RecoveryTarget(volume_id=parent.volume_id, point=HEAD)
        return build_branch_spec(project, branch, endpoint, target)

    async def find_wal_end(self, spec: BranchSpec) -> str | None:
        """Return the end of the WAL of a new volume, which is where its history starts."""
        end = await self.engine_inspection.read_wal_end(spec.volume_id)
        return end or (await self.history_engine.ensure_history_started(spec.project_id, spec.volume_id)).began_lsn

    async def build_compute_spec(self, endpoint_id: EndpointId) -> ComputeSpec:
        async with self.read() as rows:
            endpoint = require_found(await rows.endpoints.get(endpoint_id), "endpoint")
            project = require_found(await rows.projects.get(endpoint.project_id), "project")
            branch = require_found(await rows.branches.get(project.id, endpoint.branch_id), "branch")
            roles = await rows.roles.list_in_branch(branch.id)
            databases = await rows.databases.list_in_branch(branch.id)
            siblings = await rows.endpoints.list_in_branch(branch.id)
            organization = await rows.organizations.get(project.org_id)
        spec = build_compute_spec(project, branch, endpoint, roles, databases, branch_endpoints=siblings)
        if self._get_plan is None or organization is None:
            return spec
        plan = self._get_plan(organization.plan)
        limit, _ = storage_limit(project.settings, plan.quota.model_dump(), plan.storage_bytes)
        return replace(spec, storage_limit_bytes=limit)


def require_found(resource: T | None, noun: str) -> T:
    if resource is None:
        raise NotFound.resource(noun)
    return resource

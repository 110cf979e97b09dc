"""The few things an action may hold."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from bough import log
from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.history import HEAD, Target
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.engine.port import Contents, Engine, EngineError
from bough.engine.spec import BranchSpec, ComputeSpec, branch_spec, compute_spec
from bough.errors import NotFound
from bough.ids import BranchId, EndpointId, ProjectId
from bough.operations import contents
from bough.operations.contents import Look, Plans
from bough.operations.doors import Doors, NoDoors
from bough.store.store import Rows, Store

T = TypeVar("T")
logger = log.get(room="operations")


class Context:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        operation: Operation,
        doors: Doors | None = None,
        plans: Plans | None = None,
    ) -> None:
        self._store = store
        self._plans = plans
        self.doors: Doors = doors or NoDoors()
        self.engine = engine
        self._operation = operation

    def read(self) -> AbstractAsyncContextManager[Rows]:
        return self._store.read()

    async def look_at_contents(self, endpoint: Endpoint) -> Look | None:
        """What is to be written of it before its compute is gone. One that cannot be asked is let go."""
        try:
            return await contents.look(self._store, self.engine, endpoint, self._plans)
        except EngineError as error:
            logger.warning("contents_not_read", endpoint_id=endpoint.id, reason=error.public)
            return None

    async def look_into(self, spec: BranchSpec, branch_id: BranchId) -> Contents:
        """What is in a volume, up to what the branch may have that gets it."""
        async with self.read() as rows:
            own = await contents.known(rows, branch_id)
            plan = await rows.organizations.plan_of(spec.project_id) if self._plans else None
        return await self.engine.look_into(spec, contents.listing(own, self._plans, plan))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Rows]:
        """Writes that happen only while the lease is ours; may be repeated, like the step they belong to."""
        async with self._store.transaction(lasting=False) as rows:
            await rows.operations.hold(self._operation.id, self._operation.fence)
            yield rows

    async def project(self, project_id: ProjectId) -> Project:
        async with self.read() as rows:
            return there(await rows.projects.get(project_id), "project")

    async def branch(self, project_id: ProjectId, branch_id: BranchId) -> Branch:
        async with self.read() as rows:
            return there(await rows.branches.get(project_id, branch_id), "branch")

    async def endpoint(self, endpoint_id: EndpointId) -> Endpoint:
        async with self.read() as rows:
            return there(await rows.endpoints.get(endpoint_id), "endpoint")

    async def branch_spec(self, project_id: ProjectId, branch_id: BranchId, target: Target | None = None) -> BranchSpec:
        """Without a target it begins with all that its parent has, if it has one."""
        async with self.read() as rows:
            project = there(await rows.projects.get(project_id), "project")
            branch = there(await rows.branches.get(project_id, branch_id), "branch")
            endpoint = await rows.endpoints.read_write(branch_id)
            parent = await rows.branches.get(project_id, branch.parent_id) if branch.parent_id else None
        if target is None and parent is not None:
            target = Target(volume_id=parent.volume_id, point=HEAD)
        return branch_spec(project, branch, endpoint, target)

    async def end_of(self, spec: BranchSpec) -> str | None:
        """Where the WAL of a volume ends that was changed before anybody could open it: its history begins there."""
        end = await self.engine.written_until(spec.volume_id)
        return end or (await self.engine.ensure_begun(spec.project_id, spec.volume_id)).began_lsn

    async def compute_spec(self, endpoint_id: EndpointId) -> ComputeSpec:
        async with self.read() as rows:
            endpoint = there(await rows.endpoints.get(endpoint_id), "endpoint")
            project = there(await rows.projects.get(endpoint.project_id), "project")
            branch = there(await rows.branches.get(project.id, endpoint.branch_id), "branch")
            roles = await rows.roles.of_branch(branch.id)
            databases = await rows.databases.of_branch(branch.id)
            siblings = await rows.endpoints.of_branch(branch.id)
            organization = await rows.organizations.get(project.org_id)
        spec = compute_spec(project, branch, endpoint, roles, databases, siblings=siblings)
        if self._plans is None or organization is None:
            return spec
        return replace(spec, storage_bytes=self._plans(organization.plan).storage_bytes)


def there(thing: T | None, noun: str) -> T:
    if thing is None:
        raise NotFound.thing(noun)
    return thing

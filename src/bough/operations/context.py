"""The few things an action may hold."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

from bough.domain.branch import Branch
from bough.domain.endpoint import Endpoint
from bough.domain.operation import Operation
from bough.domain.project import Project
from bough.engine.port import Engine
from bough.engine.spec import ComputeSpec, compute_spec
from bough.errors import NotFound
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.store import Rows, Store

T = TypeVar("T")


class Context:
    def __init__(self, store: Store, engine: Engine, operation: Operation) -> None:
        self._store = store
        self.engine = engine
        self._operation = operation

    def read(self) -> AbstractAsyncContextManager[Rows]:
        return self._store.read()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Rows]:
        """Writes that happen only while the lease is ours."""
        async with self._store.transaction() as rows:
            await rows.operations.hold(self._operation.id, self._operation.fence)
            yield rows

    async def project(self, project_id: ProjectId) -> Project:
        async with self.read() as rows:
            return _there(await rows.projects.get(project_id), "project")

    async def branch(self, project_id: ProjectId, branch_id: BranchId) -> Branch:
        async with self.read() as rows:
            return _there(await rows.branches.get(project_id, branch_id), "branch")

    async def endpoint(self, endpoint_id: EndpointId) -> Endpoint:
        async with self.read() as rows:
            return _there(await rows.endpoints.get(endpoint_id), "endpoint")

    async def compute_spec(self, endpoint_id: EndpointId) -> ComputeSpec:
        async with self.read() as rows:
            endpoint = _there(await rows.endpoints.get(endpoint_id), "endpoint")
            project = _there(await rows.projects.get(endpoint.project_id), "project")
            branch = _there(await rows.branches.get(project.id, endpoint.branch_id), "branch")
            roles = await rows.roles.of_branch(branch.id)
            databases = await rows.databases.of_branch(branch.id)
        return compute_spec(project, branch, endpoint, roles, databases)


def _there(thing: T | None, noun: str) -> T:
    if thing is None:
        raise NotFound.thing(noun)
    return thing

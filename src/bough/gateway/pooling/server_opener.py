"""Opens the server connections of a pool, several at the same time, as far as the budget allows."""

import asyncio
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from bough.gateway.backend import Backend, BackendConnector
from bough.gateway.pooling.pool_client import PoolClient
from bough.gateway.pooling.reported_parameters import APPLICATION_NAME, ReportedParameters
from bough.gateway.pooling.server_login import ServerLoginFailed, TooManyConnections, log_in_server
from bough.gateway.routing import ConnectionTarget
from bough.ids import EndpointId

_MAX_OPENING = 8  # server connections opened at the same time


class ServerOpenerPool(Protocol):
    """The parts of a pool that its opener uses."""

    endpoint: EndpointId
    target: ConnectionTarget

    @property
    def waiting(self) -> Iterable[PoolClient]: ...

    def add_server(self, backend: Backend, reported: ReportedParameters, application_name: bytes) -> None: ...

    def fail(self, reason: ServerLoginFailed) -> None:
        """Disconnect all waiting clients: no server connection can be opened."""


AnyPool = TypeVar("AnyPool", bound=ServerOpenerPool)
AnyPool_contra = TypeVar("AnyPool_contra", contravariant=True)


class PoolBudget(Protocol[AnyPool_contra]):
    """The budget of server connections that the pools of an endpoint share."""

    def acquire_server(self, pool: AnyPool_contra) -> bool:
        """Take one server connection from the budget, if possible."""

    def release_server(self, pool: AnyPool_contra) -> None: ...

    def remove_if_empty(self, pool: AnyPool_contra) -> None:
        """Remove the pool if it has no clients and no server connections."""


class ServerOpener(Generic[AnyPool]):
    def __init__(self, pool: AnyPool, connector: BackendConnector, budget: PoolBudget[AnyPool]) -> None:
        self._pool = pool
        self._connector = connector
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_budget_exhausted = False  # at the last attempt

    @property
    def is_opening(self) -> bool:
        return bool(self._tasks)

    def open_for(self, waiting_count: int) -> bool:
        """Open server connections for so many clients, within the limits; return whether any are being opened."""
        while not self.is_budget_exhausted and len(self._tasks) < min(waiting_count, _MAX_OPENING):
            if not self._budget.acquire_server(self._pool):
                self.is_budget_exhausted = True
                break
            task = self._loop.create_task(self._open())
            self._tasks.add(task)
            task.add_done_callback(self._on_opened)
        return bool(self._tasks)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _open(self) -> None:
        pool = self._pool
        application_name = (
            next((client.application_name for client in pool.waiting), b"")
            or pool.target.parameters.get(APPLICATION_NAME, "").encode()
        )
        try:
            backend, reported = await log_in_server(self._connector, pool.endpoint, pool.target, application_name)
        except ServerLoginFailed as reason:
            self._budget.release_server(pool)
            pool.fail(reason)
        except BaseException as reason:
            self._budget.release_server(pool)
            if not isinstance(reason, TooManyConnections):
                raise
        else:
            pool.add_server(backend, reported, application_name)

    def _on_opened(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._budget.remove_if_empty(self._pool)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

"""The members of one role, database and set of startup parameters: who rests, who is lent, who waits.

A client gets the member back that it had last, if nobody else has had it since: that one needs no cleaning.
Clients wait in the order they came.
"""

import asyncio
import hashlib
from collections import OrderedDict, deque
from typing import Protocol

from bough.domain.pooler import PoolSettings
from bough.gateway.backend import Backend, BackendConnector
from bough.gateway.pooling import eviction
from bough.gateway.pooling.eviction import WaitingClient
from bough.gateway.pooling.extensions import StatefulExtensions
from bough.gateway.pooling.opening import APPLICATION_NAME, ServerLoginFailed, TooManyConnections, log_in_server
from bough.gateway.pooling.reported_parameters import ReportedParameters
from bough.gateway.pooling.server_connection import ServerConnection
from bough.gateway.pooling.server_login import ServerGreeting
from bough.gateway.pooling.statements import StatementCatalog
from bough.gateway.routing import ConnectionTarget
from bough.ids import EndpointId

TICK_SECONDS = 0.1  # seconds
AFFINITY_SECONDS = 0.02  # seconds that a member stays its last client's, when another may be opened
_MAX_OPENING = 8  # members that are being opened


class PoolBudget(Protocol):
    """What all pools of an endpoint share."""

    def acquire_server(self, pool: "Pool") -> bool:
        """Whether one more member may be opened."""

    def release_server(self, pool: "Pool") -> None: ...

    def remove_if_empty(self, pool: "Pool") -> None:
        """Somebody left; perhaps it was the last one."""


class Pool:
    def __init__(
        self,
        endpoint: EndpointId,
        target: ConnectionTarget,
        settings: PoolSettings,
        connector: BackendConnector,
        budget: PoolBudget,
    ) -> None:
        self.endpoint = endpoint
        self.budget_key = _key(endpoint, target)
        self.target = target
        self.settings = settings
        self.catalog = StatementCatalog()
        self.extensions = StatefulExtensions()
        self.clients: set[WaitingClient] = set()
        self.servers: set[ServerConnection] = set()
        self.idle: OrderedDict[ServerConnection, None] = OrderedDict()  # the longest rested first
        self.waiting: deque[WaitingClient] = deque()
        self.waits, self.waited_seconds = 0, 0.0  # since they were reported
        self._backends = connector
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._greeting = ServerGreeting()
        self._is_budget_exhausted = False  # the budget, when it was looked at last
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """How many wait for a member, to use it or to learn how Postgres greets."""
        return len(self.waiting) + len(self._greeting)

    @property
    def is_empty(self) -> bool:
        return not (self.clients or self.servers or self._opening or self._greeting)

    # Clients.

    async def wait_for_greeting(self) -> None:
        """Comes back when it is known how Postgres greets; a role or database that it refuses raises."""
        if self._greeting.is_known:
            return
        asked = self._greeting.add_waiter()
        self._grow(0)
        self._schedule_tick()
        try:
            await self._greeting.wait(asked, self.settings)
        except BaseException:
            self._budget.remove_if_empty(self)
            raise

    def get_greeting(self, application_name: bytes) -> ReportedParameters:
        return self._greeting.get_for(application_name)

    def assign_server(self, client: WaitingClient) -> bool:
        """Whether the client has a member that takes its bytes now; otherwise it is told to go on."""
        member = self._pick(client)
        if member is None:
            self.enqueue(client)
            return False
        client.server = member
        return member.assign(client)

    def enqueue(self, client: WaitingClient, *, at_front: bool = False) -> None:
        client.waiting_since = self._loop.time()
        if at_front:
            self.waiting.appendleft(client)
        else:
            self.waiting.append(client)
        self._grow(0)
        self._schedule_tick()

    def dequeue(self, client: WaitingClient) -> None:
        """It does not wait any longer."""
        if client in self.waiting:
            self.waiting.remove(client)

    def add_client(self, client: WaitingClient) -> None:
        self.clients.add(client)
        self._schedule_tick()

    def remove_client(self, client: WaitingClient) -> None:
        self.clients.discard(client)
        self._budget.remove_if_empty(self)

    def _pick(self, client: WaitingClient) -> ServerConnection | None:
        idle = self.idle
        last = client.last_server
        if last is not None and last.last_client is client and last in idle:
            del idle[last]
            return last
        if self.waiting or not idle:
            return None
        member = next(iter(idle))
        now = self._loop.time()
        if now - member.idle_since > AFFINITY_SECONDS:
            # Of those that are nobody's by now the last one, so that the others grow old and are closed.
            member = next(each for each in reversed(idle) if now - each.idle_since > AFFINITY_SECONDS)
        elif member.last_client is not None and self._grow(1):
            return None
        del idle[member]
        if member.can_serve(client):
            return member
        member.close()
        return None

    # Members.

    def release(self, server: ServerConnection) -> None:
        if server.is_closed:
            return
        now = self._loop.time()
        if server.is_retired or server.is_ending or server.pending_replies.is_unusable:
            server.close()
        elif self.waiting and not server.can_serve(self.waiting[0]):
            server.close()  # another is opened in its place
        elif self.waiting:
            client = self.waiting.popleft()
            self.waits += 1
            self.waited_seconds += now - client.waiting_since
            client.server = server
            if server.assign(client):
                client.on_server_ready()
        else:
            server.idle_since = now
            self.idle[server] = None

    def remove(self, server: ServerConnection) -> None:
        self.servers.discard(server)
        self.idle.pop(server, None)
        self._budget.release_server(self)
        self._is_budget_exhausted = False
        self._grow(0)
        self._budget.remove_if_empty(self)

    def _grow(self, more: int) -> bool:
        """Whether a member is on its way for each who waits, or as many as may be."""
        while not self._is_budget_exhausted and len(self._opening) < min(self.waiting_count + more, _MAX_OPENING):
            if not self._budget.acquire_server(self):
                self._is_budget_exhausted = True
                break
            task = self._loop.create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opened)
        return bool(self._opening)

    async def _open(self) -> None:
        name = (
            next((client.application_name for client in self.waiting), b"")
            or self.target.parameters.get(APPLICATION_NAME, "").encode()
        )
        try:
            backend, reported = await log_in_server(self._backends, self.endpoint, self.target, name)
        except ServerLoginFailed as reason:
            self._budget.release_server(self)
            self._fail(reason)
        except BaseException as reason:
            self._budget.release_server(self)
            if not isinstance(reason, TooManyConnections):
                raise
        else:
            self._add(backend, reported, name)

    def _add(self, backend: Backend, reported: ReportedParameters, name: bytes) -> None:
        member = ServerConnection(backend, reported, self, name, self.settings.statements)
        self.servers.add(member)
        self._schedule_tick()
        self._greeting.set_known(member.reported_parameters)
        self.release(member)

    def _opened(self, task: "asyncio.Task[None]") -> None:
        self._opening.discard(task)
        self._budget.remove_if_empty(self)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _fail(self, reason: ServerLoginFailed) -> None:
        """Nobody who waits can be served."""
        self._greeting.fail(reason.__cause__ or reason)
        waiting, self.waiting = self.waiting, deque()
        for client in waiting:
            client.disconnect(reason.error)

    # Time.

    def _schedule_tick(self) -> None:
        """While there is something to look at."""
        if self._timer is not None:
            return
        if self.servers or self.waiting or self._greeting or (self.clients and self.settings.client_idle_seconds):
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._maintain()
        finally:
            self._schedule_tick()

    def _maintain(self) -> None:
        now = self._loop.time()
        self._is_budget_exhausted = False
        eviction.evict_expired(self, now)
        if self.waiting_count:
            self._grow(0)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._opening:
            task.cancel()
        for member in tuple(self.servers):
            member.close()


def _key(endpoint: EndpointId, target: ConnectionTarget) -> str:
    """Of its role and database, as a file may be called."""
    names = f"{target.role}\0{target.database}".encode(errors="surrogateescape")
    return f"{endpoint}.{hashlib.sha256(names).hexdigest()[:16]}"

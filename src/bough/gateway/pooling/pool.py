"""The server connections for one role, database and set of startup parameters, and the clients that share them.

A client gets the server connection that it used last if no other client has used it since, because that one needs
no reset. Clients wait in the order in which they came.
"""

import asyncio
import hashlib
from collections import OrderedDict, deque

from bough.domain.pooler import PoolSettings
from bough.gateway.backend import Backend, BackendConnector
from bough.gateway.pooling import eviction
from bough.gateway.pooling.eviction import WaitingClient
from bough.gateway.pooling.extensions import StatefulExtensions
from bough.gateway.pooling.reported_parameters import ReportedParameters
from bough.gateway.pooling.server_connection import ServerConnection
from bough.gateway.pooling.server_login import ServerGreeting, ServerLoginFailed
from bough.gateway.pooling.server_opener import PoolBudget, ServerOpener
from bough.gateway.pooling.statements import StatementCatalog
from bough.gateway.routing import ConnectionTarget
from bough.ids import EndpointId

TICK_SECONDS = 0.1
AFFINITY_SECONDS = 0.02  # how long a server connection is reserved for its last client, if another can be opened


class Pool:
    def __init__(
        self,
        endpoint: EndpointId,
        target: ConnectionTarget,
        settings: PoolSettings,
        connector: BackendConnector,
        budget: PoolBudget["Pool"],
    ) -> None:
        self.endpoint = endpoint
        self.budget_key = _budget_key(endpoint, target)
        self.target = target
        self.settings = settings
        self.catalog = StatementCatalog()
        self.extensions = StatefulExtensions()
        self.clients: set[WaitingClient] = set()
        self.servers: set[ServerConnection] = set()
        self.idle: OrderedDict[ServerConnection, None] = OrderedDict()  # longest idle first
        self.waiting: deque[WaitingClient] = deque()
        self.waits, self.waited_seconds = 0, 0.0  # since the last report
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._opener = ServerOpener(self, connector, budget)
        self._greeting = ServerGreeting()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting_count(self) -> int:
        """The number of clients that wait for a server connection or for the greeting."""
        return len(self.waiting) + self._greeting.waiting_count

    @property
    def is_empty(self) -> bool:
        return not (self.clients or self.servers or self._opener.is_opening or self._greeting.waiting_count)

    # Clients.

    async def wait_for_greeting(self) -> None:
        """Return when the greeting of Postgres is known; raise if Postgres rejects the role or the database."""
        if self._greeting.is_known:
            return
        waiter = self._greeting.add_waiter()
        self._opener.open_for(self.waiting_count)
        self._schedule_tick()
        try:
            await self._greeting.wait(waiter, self.settings)
        except BaseException:
            self._budget.remove_if_empty(self)
            raise

    def get_greeting(self, application_name: bytes) -> ReportedParameters:
        return self._greeting.get_for(application_name)

    def assign_server(self, client: WaitingClient) -> bool:
        """Assign a server connection; return False if the client must wait for `on_server_ready`."""
        server = self._take_idle(client)
        if server is None:
            self.enqueue(client)
            return False
        client.server = server
        return server.assign(client)

    def enqueue(self, client: WaitingClient, *, at_front: bool = False) -> None:
        client.waiting_since = self._loop.time()
        if at_front:
            self.waiting.appendleft(client)
        else:
            self.waiting.append(client)
        self._opener.open_for(self.waiting_count)
        self._schedule_tick()

    def dequeue(self, client: WaitingClient) -> None:
        """Remove the client from the queue."""
        if client in self.waiting:
            self.waiting.remove(client)

    def add_client(self, client: WaitingClient) -> None:
        self.clients.add(client)
        self._schedule_tick()

    def remove_client(self, client: WaitingClient) -> None:
        self.clients.discard(client)
        self._budget.remove_if_empty(self)

    def _take_idle(self, client: WaitingClient) -> ServerConnection | None:
        idle = self.idle
        last_server = client.last_server
        if last_server is not None and last_server.last_client is client and last_server in idle:
            del idle[last_server]
            return last_server
        if self.waiting or not idle:
            return None
        server = next(iter(idle))
        now = self._loop.time()
        if now - server.idle_since > AFFINITY_SECONDS:
            # The most recently used unreserved one, so that the others become idle long enough to be closed.
            server = next(each for each in reversed(idle) if now - each.idle_since > AFFINITY_SECONDS)
        elif server.last_client is not None and self._opener.open_for(self.waiting_count + 1):
            return None
        del idle[server]
        if server.can_serve(client):
            return server
        server.close()
        return None

    # Server connections.

    def release(self, server: ServerConnection) -> None:
        if server.is_closed:
            return
        now = self._loop.time()
        if server.is_retired or server.is_ending or server.pending_replies.is_unusable:
            server.close()
        elif self.waiting and not server.can_serve(self.waiting[0]):
            server.close()  # another one is opened instead
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
        self._opener.is_budget_exhausted = False
        self._opener.open_for(self.waiting_count)
        self._budget.remove_if_empty(self)

    def add_server(self, backend: Backend, reported: ReportedParameters, application_name: bytes) -> None:
        server = ServerConnection(backend, reported, self, application_name, self.settings.statements)
        self.servers.add(server)
        self._schedule_tick()
        self._greeting.set_known(server.reported_parameters)
        self.release(server)

    def fail(self, reason: ServerLoginFailed) -> None:
        self._greeting.fail(reason.__cause__ or reason)
        waiting, self.waiting = self.waiting, deque()
        for client in waiting:
            client.disconnect(reason.error)

    # Maintenance.

    def _schedule_tick(self) -> None:
        """Schedule maintenance while there is something to maintain."""
        if self._timer is not None:
            return
        if self.servers or self.waiting_count or (self.clients and self.settings.client_idle_seconds):
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._maintain()
        finally:
            self._schedule_tick()

    def _maintain(self) -> None:
        now = self._loop.time()
        self._opener.is_budget_exhausted = False
        eviction.evict_expired(self, now)
        if self.waiting_count:
            self._opener.open_for(self.waiting_count)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._opener.close()
        for server in tuple(self.servers):
            server.close()


def _budget_key(endpoint: EndpointId, target: ConnectionTarget) -> str:
    """Return a file name for the endpoint, role and database."""
    names = f"{target.role}\0{target.database}".encode(errors="surrogateescape")
    return f"{endpoint}.{hashlib.sha256(names).hexdigest()[:16]}"

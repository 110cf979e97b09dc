"""All pools of this worker, and the budget of server connections that the pools of an endpoint share."""

import asyncio
from collections import defaultdict

from bough.domain.gateway_reports import PoolReport
from bough.domain.pooler import PoolSettings
from bough.gateway.backend import BackendConnector
from bough.gateway.errors import POOLED_REPLICATION_UNSUPPORTED, ConnectionRejected
from bough.gateway.pooling import eviction
from bough.gateway.pooling.budget import ServerBudget
from bough.gateway.pooling.pool import AFFINITY_SECONDS, Pool
from bough.gateway.pooling.reported_parameters import APPLICATION_NAME
from bough.gateway.routing import ConnectionTarget
from bough.gateway.wire.replication import ReplicationMode
from bough.ids import EndpointId

_SHARE_INTERVAL_SECONDS = 0.2

PoolKey = tuple[str, str, tuple[tuple[str, str], ...]]  # role, database, startup parameters


class Pools:
    def __init__(self, connector: BackendConnector, budget: ServerBudget) -> None:
        self._connector = connector
        self._budget = budget
        self._pools: dict[EndpointId, dict[PoolKey, Pool]] = defaultdict(dict)
        self._published_waiting: dict[str, int] = {}  # waiting clients, by budget key
        self._timer: asyncio.TimerHandle | None = None

    def get_or_create(self, endpoint: EndpointId, target: ConnectionTarget, settings: PoolSettings) -> Pool:
        """Return the pool for this target, with the current settings."""
        if target.replication_mode is not ReplicationMode.NONE:
            raise ConnectionRejected(POOLED_REPLICATION_UNSUPPORTED)
        parameters = tuple(
            sorted((name, value) for name, value in target.parameters.items() if name != APPLICATION_NAME)
        )
        key = target.role, target.database, parameters
        pool = self._pools[endpoint].get(key)
        if pool is None:
            pool = self._pools[endpoint][key] = Pool(endpoint, target, settings, self._connector, self)
        pool.settings = settings
        return pool

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SHARE_INTERVAL_SECONDS, self._share)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for pool in [pool for pools in self._pools.values() for pool in pools.values()]:
            pool.close()
        self._budget.close()

    def take_stats(self, endpoint: EndpointId) -> PoolReport | None:
        """Return the current numbers, and the waits since the last call; None: the endpoint has no pool."""
        pools = self._pools_of(endpoint)
        clients = sum(len(pool.clients) for pool in pools)
        servers = sum(len(pool.servers) for pool in pools)
        idle = sum(len(pool.idle) for pool in pools)
        waiting = sum(len(pool.waiting) for pool in pools)
        waits, waited_seconds = sum(pool.waits for pool in pools), sum(pool.waited_seconds for pool in pools)
        for pool in pools:
            pool.waits, pool.waited_seconds = 0, 0.0
        if not (clients or servers or waits):
            return None
        active = sum(server.client is not None for pool in pools for server in pool.servers)
        return PoolReport(
            clients_active=active,
            clients_waiting=waiting,
            clients_idle=max(0, clients - active - waiting),
            servers_active=servers - idle,
            servers_idle=idle,
            waits=waits,
            waited_seconds=waited_seconds,
        )

    # The budget, for pools.

    def acquire_server(self, pool: Pool) -> bool:
        acquired: list[str] = []
        for key, limit in _limits(pool):
            if not self._budget.acquire(key, limit) and not (
                self._evict(pool, key) and self._budget.acquire(key, limit)
            ):
                for each in acquired:
                    self._budget.release(each)
                return False
            acquired.append(key)
        return True

    def release_server(self, pool: Pool) -> None:
        for key, _ in _limits(pool):
            self._budget.release(key)

    def remove_if_empty(self, pool: Pool) -> None:
        if not pool.is_empty:
            return
        pools = self._pools.get(pool.endpoint, {})
        for key in [key for key, each in pools.items() if each is pool]:
            del pools[key]
        remaining = {key for each in pools.values() for key, _ in _limits(each)}
        for budget_key, _ in _limits(pool):
            if budget_key not in remaining:
                self._published_waiting.pop(budget_key, None)
                self._budget.withdraw(budget_key)
        if not pools:
            self._pools.pop(pool.endpoint, None)

    # Sharing with other workers.

    def _share(self) -> None:
        """Publish how many of our clients wait, and close server connections that other workers need."""
        self.start()
        for pools in tuple(self._pools.values()):
            by_key: dict[tuple[str, int], list[Pool]] = defaultdict(list)
            for pool in pools.values():
                for key_and_limit in _limits(pool):
                    by_key[key_and_limit].append(pool)
            for (key, limit), pools_of_key in by_key.items():
                self._share_key(key, limit, pools_of_key)

    def _share_key(self, key: str, limit: int, pools: list[Pool]) -> None:
        waiting = sum(pool.waiting_count for pool in pools)
        if waiting != self._published_waiting.get(key, 0):
            self._published_waiting[key] = waiting
            self._budget.set_waiting(key, waiting)
        if any(pool.servers for pool in pools):
            needed, excess = self._budget.get_excess(key, limit)
            for pool in pools if needed else ():
                needed -= eviction.close_idle(pool, asyncio.get_running_loop().time() - AFFINITY_SECONDS, needed)
            for pool in pools if excess else ():
                excess -= eviction.retire_servers(pool, excess)

    def _evict(self, pool: Pool, key: str) -> bool:
        """Close the longest idle server connection of another pool with this budget key, if there is one."""
        others = [each for each in self._pools_of(pool.endpoint) if each is not pool and each.idle]
        idle_servers = [next(iter(each.idle)) for each in others if key in dict(_limits(each))]
        if not idle_servers:
            return False
        min(idle_servers, key=lambda server: server.idle_since).close()
        return True

    def _pools_of(self, endpoint: EndpointId) -> list[Pool]:
        return list(self._pools.get(endpoint, {}).values())


def _limits(pool: Pool) -> tuple[tuple[str, int], ...]:
    """Return the budget keys and limits of a pool: of its endpoint, and of its role and database."""
    return (pool.endpoint, pool.settings.servers), (pool.budget_key, pool.settings.servers_per_pool)

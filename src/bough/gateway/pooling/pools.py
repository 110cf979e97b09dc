"""All pools of this worker, and what those of an endpoint share: its budget of members."""

import asyncio
from collections import defaultdict

from bough.domain.gateway_protocol import PoolReport
from bough.domain.pooler import PoolSettings
from bough.gateway.backend import BackendConnector
from bough.gateway.errors import POOLED_REPLICATION_UNSUPPORTED, ConnectionRejected
from bough.gateway.pooling import eviction
from bough.gateway.pooling.budget import ServerBudget
from bough.gateway.pooling.pool import AFFINITY_SECONDS, Pool
from bough.gateway.routing import ConnectionTarget
from bough.gateway.wire.replication import ReplicationMode
from bough.ids import EndpointId

_SHARE_EVERY = 0.2  # seconds
_NAME = "application_name"

PoolKey = tuple[str, str, tuple[tuple[str, str], ...]]  # role, database, startup parameters


class Pools:
    def __init__(self, connector: BackendConnector, budget: ServerBudget) -> None:
        self._backends = connector
        self._budget = budget
        self._pools: dict[EndpointId, dict[PoolKey, Pool]] = defaultdict(dict)
        self._published_waiting: dict[str, int] = {}  # as the other workers were told
        self._timer: asyncio.TimerHandle | None = None

    def get_or_create(self, endpoint: EndpointId, target: ConnectionTarget, settings: PoolSettings) -> Pool:
        """The pool of whoever wants in, with the settings of now."""
        if target.replication_mode is not ReplicationMode.NONE:
            raise ConnectionRejected(POOLED_REPLICATION_UNSUPPORTED)
        parameters = tuple(sorted((name, value) for name, value in target.parameters.items() if name != _NAME))
        key = target.role, target.database, parameters
        pool = self._pools[endpoint].get(key)
        if pool is None:
            pool = self._pools[endpoint][key] = Pool(endpoint, target, settings, self._backends, self)
        pool.settings = settings
        return pool

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_SHARE_EVERY, self._share)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for pool in [pool for pools in self._pools.values() for pool in pools.values()]:
            pool.close()
        self._budget.close()

    def take_stats(self, endpoint: EndpointId) -> PoolReport | None:
        """Who is there, and who waited since this was asked for last; None: nobody is there."""
        pools = self._pools_of(endpoint)
        clients = sum(len(pool.clients) for pool in pools)
        servers = sum(len(pool.servers) for pool in pools)
        idle = sum(len(pool.idle) for pool in pools)
        waiting = sum(len(pool.waiting) for pool in pools)
        waits, waited = sum(pool.waits for pool in pools), sum(pool.waited_seconds for pool in pools)
        for pool in pools:
            pool.waits, pool.waited_seconds = 0, 0.0
        if not (clients or servers or waits):
            return None
        active = sum(member.client is not None for pool in pools for member in pool.servers)
        return PoolReport(
            clients_active=active,
            clients_waiting=waiting,
            clients_idle=max(0, clients - active - waiting),
            servers_active=servers - idle,
            servers_idle=idle,
            waits=waits,
            waited_seconds=waited,
        )

    # What pools ask for.

    def acquire_server(self, pool: Pool) -> bool:
        taken: list[str] = []
        for key, limit in _limits(pool):
            if not self._budget.acquire(key, limit) and not (
                self._evict(pool, key) and self._budget.acquire(key, limit)
            ):
                for each in taken:
                    self._budget.release(each)
                return False
            taken.append(key)
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
        left = {key for each in pools.values() for key, _ in _limits(each)}
        for budget_key, _ in _limits(pool):
            if budget_key not in left:
                self._published_waiting.pop(budget_key, None)
                self._budget.withdraw(budget_key)
        if not pools:
            self._pools.pop(pool.endpoint, None)

    # What workers share.

    def _share(self) -> None:
        """Tell the others how many of ours wait, and give up what they need more."""
        self.start()
        for pools in tuple(self._pools.values()):
            by_key: dict[tuple[str, int], list[Pool]] = defaultdict(list)
            for pool in pools.values():
                for limit in _limits(pool):
                    by_key[limit].append(pool)
            for (key, most), sharing in by_key.items():
                self._share_key(key, most, sharing)

    def _share_key(self, key: str, limit: int, pools: list[Pool]) -> None:
        wants = sum(pool.waiting_count for pool in pools)
        if wants != self._published_waiting.get(key, 0):
            self._published_waiting[key] = wants
            self._budget.set_waiting(key, wants)
        if any(pool.servers for pool in pools):
            wanted, excess = self._budget.get_excess(key, limit)
            for pool in pools if wanted else ():
                wanted -= eviction.close_idle(pool, asyncio.get_running_loop().time() - AFFINITY_SECONDS, wanted)
            for pool in pools if excess else ():
                excess -= eviction.retire_servers(pool, excess)

    def _evict(self, pool: Pool, key: str) -> bool:
        """Whether a member of another pool was closed that counted there too, the one that rested longest."""
        others = [each for each in self._pools_of(pool.endpoint) if each is not pool and each.idle]
        resting = [next(iter(each.idle)) for each in others if key in dict(_limits(each))]
        if not resting:
            return False
        min(resting, key=lambda member: member.idle_since).close()
        return True

    def _pools_of(self, endpoint: EndpointId) -> list[Pool]:
        return list(self._pools.get(endpoint, {}).values())


def _limits(pool: Pool) -> tuple[tuple[str, int], ...]:
    """What its members count for: the endpoint, and the role and database, whatever its startup parameters."""
    return (pool.endpoint, pool.settings.servers), (pool.budget_key, pool.settings.servers_per_pool)

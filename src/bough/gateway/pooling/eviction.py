"""Closes server connections and disconnects clients that exceed the time limits of a pool.

Also closes server connections that clients of other pools or workers wait for.
"""

from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Protocol

from bough.domain.pooler import PoolSettings
from bough.gateway.errors import CLIENT_IDLE_TIMEOUT, IDLE_IN_TRANSACTION_TIMEOUT, query_wait_timeout_error
from bough.gateway.pooling.pool_client import PoolClient
from bough.gateway.pooling.server_connection import ServerConnection

RESET_AFTER_SECONDS = 1.0  # how long an idle server connection keeps the state of its last client


class WaitingClient(PoolClient, Protocol):
    server: ServerConnection | None
    last_server: ServerConnection | None
    waiting_since: float
    idle_since: float  # the end of its last transaction


class EvictablePool(Protocol):
    """The parts of a pool that eviction uses."""

    settings: PoolSettings
    waiting: deque[WaitingClient]
    idle: OrderedDict[ServerConnection, None]

    @property
    def servers(self) -> Collection[ServerConnection]: ...

    @property
    def clients(self) -> Collection[WaitingClient]: ...


def evict_expired(pool: EvictablePool, now: float) -> None:
    settings = pool.settings
    while pool.waiting and settings.wait_seconds and now - pool.waiting[0].waiting_since > settings.wait_seconds:
        pool.waiting.popleft().disconnect(query_wait_timeout_error(settings).encode())
    if settings.lifetime_seconds:
        for server in pool.servers:
            server.is_retired = server.is_retired or now - server.created_at > settings.lifetime_seconds
    for server in tuple(pool.idle):
        idle_seconds = now - server.idle_since
        if server.is_retired or (settings.idle_seconds and idle_seconds > settings.idle_seconds):
            server.close()
        elif not server.is_clean and idle_seconds > RESET_AFTER_SECONDS:
            del pool.idle[server]
            server.reset_idle()
    if settings.idle_transaction_seconds:
        _end_idle_transactions(pool, now - settings.idle_transaction_seconds)
    if settings.client_idle_seconds:
        _end_idle_clients(pool, now - settings.client_idle_seconds)


def close_idle(pool: EvictablePool, idle_before: float, count: int) -> int:
    """Close up to `count` server connections that have been idle since before `idle_before`; return how many."""
    closed = [server for server in pool.idle if server.idle_since < idle_before][:count]
    for server in closed:
        server.close()
    return len(closed)


def retire_servers(pool: EvictablePool, count: int) -> int:
    """Close up to `count` server connections: idle ones now, busy ones when they are released. Return how many."""
    busy = [server for server in pool.servers if server not in pool.idle and not server.is_retired]
    closed = [*pool.idle, *busy][:count]
    for server in closed:
        server.is_retired = True
        if server in pool.idle:
            server.close()
    return len(closed)


def _end_idle_transactions(pool: EvictablePool, before: float) -> None:
    for server in tuple(pool.servers):
        if server.client is not None and server.is_idle_in_transaction and server.idle_since < before:
            server.client.disconnect(IDLE_IN_TRANSACTION_TIMEOUT.encode())


def _end_idle_clients(pool: EvictablePool, before: float) -> None:
    for client in tuple(pool.clients):
        if client.server is None and client.idle_since < before and client not in pool.waiting:
            client.disconnect(CLIENT_IDLE_TIMEOUT.encode())

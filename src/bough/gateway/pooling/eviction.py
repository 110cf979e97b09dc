"""Who leaves a pool.

With time: who waited too long, what rested or lived too long, who holds a transaction open too long. And what
others need more.
"""

from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Protocol

from bough.domain.pooler import PoolSettings
from bough.gateway.errors import CLIENT_IDLE_TIMEOUT, IDLE_IN_TRANSACTION_TIMEOUT, query_wait_timeout_error
from bough.gateway.pooling.protocols import PoolClient
from bough.gateway.pooling.server_connection import ServerConnection

RESET_AFTER_SECONDS = 1.0  # seconds that a member rests as its last client left it


class WaitingClient(PoolClient, Protocol):
    server: ServerConnection | None
    last_server: ServerConnection | None
    waiting_since: float  # to wait
    idle_since: float  # when its last transaction was over


class EvictablePool(Protocol):
    """A pool."""

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
        for member in pool.servers:
            member.is_retired = member.is_retired or now - member.created_at > settings.lifetime_seconds
    for member in tuple(pool.idle):
        rested = now - member.idle_since
        if member.is_retired or (settings.idle_seconds and rested > settings.idle_seconds):
            member.close()
        elif not member.is_clean and rested > RESET_AFTER_SECONDS:
            del pool.idle[member]
            member.reset_idle()
    if settings.idle_transaction_seconds:
        _end_transactions(pool, now - settings.idle_transaction_seconds)
    if settings.client_idle_seconds:
        _end_clients(pool, now - settings.client_idle_seconds)


def close_idle(pool: EvictablePool, idle_before: float, count: int) -> int:
    """Let so many go that nobody has used since; how many there were."""
    leaving = [member for member in pool.idle if member.idle_since < idle_before][:count]
    for member in leaving:
        member.close()
    return len(leaving)


def retire_servers(pool: EvictablePool, count: int) -> int:
    """Let so many go, those that rest first and others when they come back; how many there were."""
    busy = [member for member in pool.servers if member not in pool.idle and not member.is_retired]
    leaving = [*pool.idle, *busy][:count]
    for member in leaving:
        member.is_retired = True
        if member in pool.idle:
            member.close()
    return len(leaving)


def _end_transactions(pool: EvictablePool, before: float) -> None:
    for member in tuple(pool.servers):
        if member.client is not None and member.is_idle_in_transaction and member.idle_since < before:
            member.client.disconnect(IDLE_IN_TRANSACTION_TIMEOUT.encode())


def _end_clients(pool: EvictablePool, before: float) -> None:
    for client in tuple(pool.clients):
        if client.server is None and client.idle_since < before and client not in pool.waiting:
            client.disconnect(CLIENT_IDLE_TIMEOUT.encode())

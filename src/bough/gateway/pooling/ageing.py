"""Who leaves a pool.

With time: who waited too long, what rested or lived too long, who holds a transaction open too long. And what
others need more.
"""

from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Protocol

from bough.gateway.errors import IDLE_CLIENT, IDLE_IN_TRANSACTION, no_server
from bough.gateway.plane import PoolSettings
from bough.gateway.pooling.borrower import Borrower
from bough.gateway.pooling.member import Member

TIDY_AFTER = 1.0  # seconds that a member rests as its last client left it


class Waiter(Borrower, Protocol):
    member: Member | None
    last: Member | None
    began: float  # to wait
    since: float  # when its last transaction was over


class Aged(Protocol):
    """A pool."""

    settings: PoolSettings
    waiting: deque[Waiter]
    idle: OrderedDict[Member, None]

    @property
    def members(self) -> Collection[Member]: ...

    @property
    def clients(self) -> Collection[Waiter]: ...


def look(pool: Aged, now: float) -> None:
    settings = pool.settings
    while pool.waiting and settings.wait_seconds and now - pool.waiting[0].began > settings.wait_seconds:
        pool.waiting.popleft().lose(no_server(settings).encoded())
    if settings.lifetime_seconds:
        for member in pool.members:
            member.is_retired = member.is_retired or now - member.born > settings.lifetime_seconds
    for member in tuple(pool.idle):
        rested = now - member.rested
        if member.is_retired or (settings.idle_seconds and rested > settings.idle_seconds):
            member.close()
        elif not member.is_clean and rested > TIDY_AFTER:
            del pool.idle[member]
            member.tidy()
    if settings.idle_transaction_seconds:
        _end_transactions(pool, now - settings.idle_transaction_seconds)
    if settings.client_idle_seconds:
        _end_clients(pool, now - settings.client_idle_seconds)


def spare(pool: Aged, before: float, count: int) -> int:
    """Let so many go that nobody has used since; how many there were."""
    leaving = [member for member in pool.idle if member.rested < before][:count]
    for member in leaving:
        member.close()
    return len(leaving)


def retire(pool: Aged, count: int) -> int:
    """Let so many go, those that rest first and others when they come back; how many there were."""
    busy = [member for member in pool.members if member not in pool.idle and not member.is_retired]
    leaving = [*pool.idle, *busy][:count]
    for member in leaving:
        member.is_retired = True
        if member in pool.idle:
            member.close()
    return len(leaving)


def _end_transactions(pool: Aged, before: float) -> None:
    for member in tuple(pool.members):
        if member.client is not None and member.is_quiet_in_transaction and member.rested < before:
            member.client.lose(IDLE_IN_TRANSACTION.encoded())


def _end_clients(pool: Aged, before: float) -> None:
    for client in tuple(pool.clients):
        if client.member is None and client.since < before and client not in pool.waiting:
            client.lose(IDLE_CLIENT.encoded())

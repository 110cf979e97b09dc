"""What time does to a pool: who waited too long, what rested too long, who holds a transaction open too long."""

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
    for member in tuple(pool.idle):
        rested = now - member.rested
        if (settings.idle_seconds and rested > settings.idle_seconds) or is_old(member, settings, now):
            member.close()
        elif not member.is_clean and rested > TIDY_AFTER:
            del pool.idle[member]
            member.tidy()
    if settings.idle_transaction_seconds:
        _end_transactions(pool, now - settings.idle_transaction_seconds)
    if settings.client_idle_seconds:
        _end_clients(pool, now - settings.client_idle_seconds)


def is_old(member: Member, settings: PoolSettings, now: float) -> bool:
    return bool(settings.lifetime_seconds) and now - member.born > settings.lifetime_seconds


def _end_transactions(pool: Aged, before: float) -> None:
    for member in tuple(pool.members):
        if member.client is not None and member.is_quiet_in_transaction and member.rested < before:
            member.client.lose(IDLE_IN_TRANSACTION.encoded())


def _end_clients(pool: Aged, before: float) -> None:
    for client in tuple(pool.clients):
        if client.member is None and client.since < before and client not in pool.waiting:
            client.lose(IDLE_CLIENT.encoded())

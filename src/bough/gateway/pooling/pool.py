"""The members of one role, database and set of startup parameters: who rests, who is lent, who waits.

A client gets the member back that it had last, if nobody else has had it since: that one needs no cleaning.
Clients wait in the order they came.
"""

import asyncio
import hashlib
from collections import OrderedDict, deque
from typing import Protocol

from bough.gateway.backend import Backend, Backends
from bough.gateway.plane import PoolSettings
from bough.gateway.pooling import ageing
from bough.gateway.pooling.ageing import Waiter
from bough.gateway.pooling.extensions import Extensions
from bough.gateway.pooling.greeting import Greeting
from bough.gateway.pooling.member import Member
from bough.gateway.pooling.opening import NAME, Full, NotOpened, opened
from bough.gateway.pooling.reported import Reported
from bough.gateway.pooling.statements import Catalog
from bough.gateway.routing import Target
from bough.ids import EndpointId

BEAT = 0.1  # seconds
HOLD = 0.02  # seconds that a member stays its last client's, when another may be opened
_AT_ONCE = 8  # members that are being opened


class Purse(Protocol):
    """What all pools of an endpoint share."""

    def take(self, pool: "Pool") -> bool:
        """Whether one more member may be opened."""

    def give(self, pool: "Pool") -> None: ...

    def left(self, pool: "Pool") -> None:
        """Somebody left; perhaps it was the last one."""


class Pool:
    def __init__(
        self, endpoint: EndpointId, target: Target, settings: PoolSettings, backends: Backends, purse: Purse
    ) -> None:
        self.endpoint = endpoint
        self.key = _key(endpoint, target)
        self.target = target
        self.settings = settings
        self.catalog = Catalog()
        self.extensions = Extensions()
        self.clients: set[Waiter] = set()
        self.members: set[Member] = set()
        self.idle: OrderedDict[Member, None] = OrderedDict()  # the longest rested first
        self.waiting: deque[Waiter] = deque()
        self.waits, self.waited = 0, 0.0  # since they were reported
        self._backends = backends
        self._purse = purse
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._greeting = Greeting()
        self._is_spent = False  # the budget, when it was looked at last
        self._timer: asyncio.TimerHandle | None = None

    @property
    def wants(self) -> int:
        """How many wait for a member, to use it or to learn how Postgres greets."""
        return len(self.waiting) + len(self._greeting)

    @property
    def is_empty(self) -> bool:
        return not (self.clients or self.members or self._opening or self._greeting)

    # Clients.

    async def greet(self) -> None:
        """Comes back when it is known how Postgres greets; a role or database that it refuses raises."""
        if self._greeting.is_known:
            return
        asked = self._greeting.ask()
        self._grow(0)
        self._arm()
        try:
            await self._greeting.wait(asked, self.settings)
        except BaseException:
            self._purse.left(self)
            raise

    def greeting_for(self, name: bytes) -> Reported:
        return self._greeting.of(name)

    def lend(self, client: Waiter) -> bool:
        """Whether the client has a member that takes its bytes now; otherwise it is told to go on."""
        member = self._pick(client)
        if member is None:
            self.wait(client)
            return False
        client.member = member
        return member.lend(client)

    def wait(self, client: Waiter, *, first: bool = False) -> None:
        client.began = self._loop.time()
        if first:
            self.waiting.appendleft(client)
        else:
            self.waiting.append(client)
        self._grow(0)
        self._arm()

    def forget(self, client: Waiter) -> None:
        """It does not wait any longer."""
        if client in self.waiting:
            self.waiting.remove(client)

    def enter(self, client: Waiter) -> None:
        self.clients.add(client)
        self._arm()

    def left(self, client: Waiter) -> None:
        self.clients.discard(client)
        self._purse.left(self)

    def _pick(self, client: Waiter) -> Member | None:
        idle = self.idle
        last = client.last
        if last is not None and last.owner is client and last in idle:
            del idle[last]
            return last
        if self.waiting or not idle:
            return None
        member = next(iter(idle))
        now = self._loop.time()
        if now - member.rested > HOLD:
            # Of those that are nobody's by now the last one, so that the others grow old and are closed.
            member = next(each for each in reversed(idle) if now - each.rested > HOLD)
        elif member.owner is not None and self._grow(1):
            return None
        del idle[member]
        if member.may_pass_to(client):
            return member
        member.close()
        return None

    # Members.

    def given_back(self, member: Member) -> None:
        if member.is_closed:
            return
        now = self._loop.time()
        if member.is_retired or member.is_ending or member.ledger.is_spoiled:
            member.close()
        elif self.waiting and not member.may_pass_to(self.waiting[0]):
            member.close()  # another is opened in its place
        elif self.waiting:
            client = self.waiting.popleft()
            self.waits += 1
            self.waited += now - client.began
            client.member = member
            if member.lend(client):
                client.go_on()
        else:
            member.rested = now
            self.idle[member] = None

    def gone(self, member: Member) -> None:
        self.members.discard(member)
        self.idle.pop(member, None)
        self._purse.give(self)
        self._is_spent = False
        self._grow(0)
        self._purse.left(self)

    def _grow(self, more: int) -> bool:
        """Whether a member is on its way for each who waits, or as many as may be."""
        while not self._is_spent and len(self._opening) < min(self.wants + more, _AT_ONCE):
            if not self._purse.take(self):
                self._is_spent = True
                break
            task = self._loop.create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opened)
        return bool(self._opening)

    async def _open(self) -> None:
        name = next((client.name for client in self.waiting), b"") or self.target.parameters.get(NAME, "").encode()
        try:
            backend, reported = await opened(self._backends, self.endpoint, self.target, name)
        except NotOpened as reason:
            self._purse.give(self)
            self._fail(reason)
        except BaseException as reason:
            self._purse.give(self)
            if not isinstance(reason, Full):
                raise
        else:
            self._add(backend, reported, name)

    def _add(self, backend: Backend, reported: Reported, name: bytes) -> None:
        member = Member(backend, reported, self, name, self.settings.statements)
        self.members.add(member)
        self._arm()
        self._greeting.heard(member.reported)
        self.given_back(member)

    def _opened(self, task: "asyncio.Task[None]") -> None:
        self._opening.discard(task)
        self._purse.left(self)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _fail(self, reason: NotOpened) -> None:
        """Nobody who waits can be served."""
        self._greeting.fail(reason.__cause__ or reason)
        waiting, self.waiting = self.waiting, deque()
        for client in waiting:
            client.lose(reason.words)

    # Time.

    def _arm(self) -> None:
        """While there is something to look at."""
        if self._timer is not None:
            return
        if self.members or self.waiting or self._greeting or (self.clients and self.settings.client_idle_seconds):
            self._timer = self._loop.call_later(BEAT, self._beat)

    def _beat(self) -> None:
        self._timer = None
        try:
            self._look()
        finally:
            self._arm()

    def _look(self) -> None:
        now = self._loop.time()
        self._is_spent = False
        ageing.look(self, now)
        if self.wants:
            self._grow(0)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._opening:
            task.cancel()
        for member in tuple(self.members):
            member.close()


def _key(endpoint: EndpointId, target: Target) -> str:
    """Of its role and database, as a file may be called."""
    names = f"{target.role}\0{target.database}".encode(errors="surrogateescape")
    return f"{endpoint}.{hashlib.sha256(names).hexdigest()[:16]}"

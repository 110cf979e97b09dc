"""A client at a pooled host: it has a member while a transaction is open, and nothing but itself between them."""

import asyncio
from collections.abc import Callable, Mapping

from bough.gateway.activity import Tally
from bough.gateway.channel import Channel, Lost, is_gone
from bough.gateway.errors import CANCELLED
from bough.gateway.pooling import repeating
from bough.gateway.pooling.inlet import Inlet
from bough.gateway.pooling.member import Member
from bough.gateway.pooling.outlet import Outlet
from bough.gateway.pooling.pool import Pool
from bough.gateway.pooling.requests import HEAD, Requests
from bough.gateway.pooling.translation import FLUSH, Translation
from bough.gateway.wire import messages
from bough.gateway.wire.hints import with_hint
from bough.gateway.wire.malformed import Malformed
from bough.gateway.wire.messages import Trouble

_LONG = 0.02  # seconds to wait; who waited longer may be gone
GONE_SECONDS = 10.0  # a client that finished gets its answers for so long
_BUFFER = bytearray(65536)
_ROOM = memoryview(_BUFFER)
_TERMINATE = messages.TERMINATE[0]
_FOR_NOBODY = frozenset((_TERMINATE, FLUSH))  # messages that need no member
_READY_IDLE = messages.READY_HEAD + b"I"

# Why it is not read.
_WAITS, _MEMBER_IS_FULL, _IS_FULL, _IS_DONE = 1, 2, 4, 8


class Client:
    __slots__ = (
        "_channel",
        "_ended",
        "_inlet",
        "_is_over",
        "_loop",
        "_outlet",
        "_pool",
        "_replay",
        "_tally",
        "_timer",
        "began",
        "held",
        "last",
        "member",
        "name",
        "reported",
        "requests",
        "settings",
        "since",
        "unnamed",
    )

    def __init__(self, channel: Channel, pool: Pool, name: bytes, tally: Tally, ended: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._pool = pool
        self._tally = tally
        self._ended = ended
        self.requests = Requests(pool.catalog)
        self.unnamed = self.requests.translation.unnamed
        self.name = name
        self.settings: Mapping[bytes, bytes] = {}
        self.reported = pool.greeting_for(name)
        self.member: Member | None = None
        self.last: Member | None = None  # the one it had before
        self.began = 0.0  # to wait
        self.since = self._loop.time()  # it has been idle
        self.held = b""  # what it said while it has no member
        self._replay = b""  # what it said to its member first, while it may have to be said again
        self._outlet = Outlet(channel, self._flushed, self._unreachable)
        self._inlet = Inlet(channel.fd, self._readable)
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None

    def greeting(self, key: bytes) -> bytes:
        """As Postgres would greet it, with a cancel key of ours."""
        return messages.AUTHENTICATION_OK + self.reported.encoded() + key + _READY_IDLE

    def start(self) -> None:
        self._inlet.open()
        self._readable()  # TLS may have read more than was asked for

    @property
    def is_idle(self) -> bool:
        return self.member is None and not self._outlet.unsent

    def stop(self, words: bytes) -> None:
        """End it from our side."""
        if self.member is None and not self._outlet.unsent:
            self.hear(words)
        self._lost()

    @property
    def translation(self) -> Translation:
        return self.requests.translation

    @property
    def is_done(self) -> bool:
        """It will say nothing more."""
        return self._inlet.is_blocked(_IS_DONE)

    @property
    def is_waiting(self) -> bool:
        return self._inlet.is_blocked(_WAITS) and self.member is None

    # What it says.

    def _readable(self) -> None:
        try:
            count = self._channel.receive(_ROOM)
        except Lost:
            return self._lost()
        if count is None:
            return None
        if count == 0:
            return self._finished()
        self._tally.bytes_in += count
        return self._said(_BUFFER, count, _ROOM)

    def _said(self, data: bytes | bytearray, count: int, view: memoryview) -> None:
        requests = self.requests
        try:
            if self.member is None:
                if count == HEAD and requests.is_clear and data[0] in _FOR_NOBODY:
                    return self._lost() if data[0] == _TERMINATE else None
                if not requests.is_worth_a_member(data, count):
                    return requests.keep(data[:count])
                if not self._pool.lend(self):
                    self.held = bytes(data[:count])
                    return self._inlet.block(_WAITS)
            return self._say(data, count, view)
        except Malformed as malformed:
            return self.lose(Trouble(code=malformed.code, message=str(malformed)).encoded())

    def _say(self, data: bytes | bytearray, count: int, view: memoryview) -> None:
        member, requests = self.member, self.requests
        assert member is not None
        is_first = not member.sends and requests.is_clear
        out = requests.walk(data, count, member.ledger)
        if requests.rest:
            self.held, requests.rest = requests.rest, b""
            self._inlet.block(_WAITS)
        self._replay = bytes(view[:count]) if is_first and requests.is_clear else b""
        if out is None:
            member.send(view[:count])
        elif out:
            member.send(out)
        if requests.said_goodbye:
            self._finished()
        elif not member.ledger.expected:
            member.settle()  # Postgres has nothing to say to that

    # What its member has to tell it.

    def hear(self, data: memoryview | bytes) -> bool:
        self._tally.bytes_out += len(data)
        if self._outlet.write(data):
            return True
        self._inlet.block(_IS_FULL)
        return False

    def hinted(self, error: bytes) -> bytes | None:
        hint = self._tally.read_only_hint
        return with_hint(error, hint) if hint else None

    def go_on(self) -> None:
        held, self.held = self.held, b""
        if held and self._loop.time() - self.began > _LONG and is_gone(self._channel.fd):
            return self._lost()
        self._inlet.unblock(_WAITS)
        if held:
            self._said(held, len(held), memoryview(held))
        return None

    def keep(self, settings: Mapping[bytes, bytes]) -> None:
        self.settings = settings
        self.requests.translation.prepared.context = frozenset(settings.items())

    def go_slow(self) -> None:
        self._inlet.block(_MEMBER_IS_FULL)

    def go_fast(self) -> None:
        self._inlet.unblock(_MEMBER_IS_FULL)

    def let_go(self) -> None:
        self.last, self.member = self.member, None
        self._replay = b""
        self.since = self._loop.time()
        if self._timer is not None:  # it is done
            self._loop.call_soon(self._lost)

    @property
    def can_repeat(self) -> bool:
        return bool(self._replay)

    def may_repeat(self) -> bool:
        return bool(self._replay) and repeating.may_repeat(self._replay, self.translation)

    def again(self) -> None:
        self.member = None
        self.held = self._replay or self.held
        self._replay = b""
        self._inlet.block(_WAITS)
        if self.held:
            self._pool.wait(self, first=True)

    def lose(self, words: bytes) -> None:
        """It cannot go on; these are the last words to it."""
        self._abandon()
        if words:
            self.hear(words)
        self._over()

    async def cancel(self) -> None:
        if self.member is not None:
            await self.member.cancel()
        elif self.is_waiting:
            self._pool.forget(self)
            self._cancel_held()

    def _cancel_held(self) -> None:
        rest = self.requests.without_first_batch(self.held)
        if rest is None:
            return self.lose(CANCELLED.encoded())
        self.held = b""
        self.hear(CANCELLED.encoded() + _READY_IDLE)
        self._inlet.unblock(_WAITS)
        if rest:
            self._said(rest, len(rest), memoryview(rest))
        return None

    def _flushed(self) -> None:
        self._inlet.unblock(_IS_FULL)
        if self.member is not None:
            self.member.resume()

    # The end.

    def _finished(self) -> None:
        """It will say nothing more, and may still want its answers."""
        if self.is_done:
            return None
        if not self.held and (self.member is None or not self.member.ledger.expected):
            return self._lost()
        self._inlet.block(_IS_DONE)
        self._timer = self._loop.call_later(GONE_SECONDS, self._lost)
        return None

    def _unreachable(self) -> None:
        self._loop.call_soon(self._lost)

    def _lost(self) -> None:
        self._abandon()
        self._over()

    def _abandon(self) -> None:
        member, self.member = self.member, None
        if member is not None:
            member.abandon()
        elif self.held:
            self._pool.forget(self)

    def _over(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._inlet.close()
        self._outlet.stop()
        self._channel.finish()
        self._channel.close()
        self._pool.left(self)
        self._ended()

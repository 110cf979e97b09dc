"""A connection of the driver that takes no more than it was allowed to, and nothing that Postgres would not send us.

Behind the socket of a compute may be any program that the project's user started. The driver keeps all that comes
until a message is whole, computes what an authentication request names, and makes lists as long as an array says that
it is. So a protocol in front of it counts the bytes and reads the head of each message.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg

from bough.engine.local.computes.message_heads import Heads, Size, Unexpected

MOST_BEFORE_READY = 64 * 1024  # bytes; Postgres sends some hundred

# What the driver raises when something goes wrong with a server that is one.
TROUBLES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


async def understood(asked: Coroutine[Any, Any, Any]) -> Any:
    """What the driver found. It fails in many other ways at what no Postgres says: all of them are a ValueError."""
    try:
        return await asked
    except TROUBLES:
        raise
    except Exception as error:
        raise ValueError("the driver cannot read it") from error


class LimitedProtocol(asyncio.Protocol):
    """Hands everything on to the driver's protocol, until something is wrong with it."""

    def __init__(self, inner: Any, most: Size) -> None:
        self.inner = inner
        self.received = 0  # bytes since the last statement began
        self.refusal: Unexpected | None = None
        self._most = most
        self._heads = Heads(most)
        self._transport: asyncio.BaseTransport | None = None

    def renew(self) -> None:
        """The next statement may have as much again."""
        self.received = 0
        self._heads.count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.refusal is not None:
            return
        self.received += len(data)
        try:
            self._check(data)
            self.inner.data_received(data)
        except Unexpected as refusal:
            self._refuse(refusal)
        except Exception as error:  # noqa: BLE001  the driver fails in many ways at what no Postgres sends
            self._refuse(Unexpected(f"it sent what cannot be read ({type(error).__name__})"))

    def eof_received(self) -> bool | None:
        return bool(self.inner.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self.inner.connection_lost(self.refusal or exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def _check(self, data: bytes) -> None:
        if not self._heads.is_ready and self.received > MOST_BEFORE_READY:
            raise Unexpected(f"it sent more than {MOST_BEFORE_READY} bytes before it was ready")
        if self.received > self._most.bytes:
            raise Unexpected(f"it sent more than {self._most.bytes} bytes for one statement")
        self._heads.read(data)

    def _refuse(self, refusal: Unexpected) -> None:
        self.refusal = refusal
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()


class LimitedLoop:
    """The running event loop for the driver, but for how it connects. It equals that loop, which tasks are known by."""

    def __init__(self, most: Size) -> None:
        self._loop = asyncio.get_running_loop()
        self._most = most
        self.protocol: LimitedProtocol | None = None  # of the session; what follows are requests to cancel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._loop

    def __hash__(self) -> int:
        return hash(self._loop)

    async def create_unix_connection(self, factory: Callable[[], Any], path: str) -> tuple[Any, Any]:
        transport, protocol = await self._loop.create_unix_connection(lambda: self._limited(factory()), path)
        return transport, protocol.inner

    def _limited(self, inner: Any) -> LimitedProtocol:
        made = LimitedProtocol(inner, self._most)
        if self.protocol is None:
            self.protocol = made
        return made

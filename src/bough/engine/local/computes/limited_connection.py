"""A connection of the driver that takes no more than it was allowed to, and nothing that Postgres would not send us.

Behind the socket of a compute may be any program that the project's user started. The driver keeps all that comes
until a message is whole, computes what an authentication request names, and makes lists as long as an array says that
it is. So a protocol in front of it counts the bytes and reads the head of each message.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg

from bough.engine.local.computes.message_headers import MessageHeaderReader, ResponseLimits, UnexpectedMessage

MAX_STARTUP_BYTES = 64 * 1024  # bytes; Postgres sends some hundred

# What the driver raises when something goes wrong with a server that is one.
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


async def await_driver(call: Coroutine[Any, Any, Any]) -> Any:
    """What the driver found. It fails in many other ways at what no Postgres says: all of them are a ValueError."""
    try:
        return await call
    except DRIVER_ERRORS:
        raise
    except Exception as error:
        raise ValueError("the driver cannot read it") from error


class LimitedProtocol(asyncio.Protocol):
    """Hands everything on to the driver's protocol, until something is wrong with it."""

    def __init__(self, inner: Any, limits: ResponseLimits) -> None:
        self.inner = inner
        self.received_bytes = 0  # bytes since the last statement began
        self.violation: UnexpectedMessage | None = None
        self._limits = limits
        self._headers = MessageHeaderReader(limits)
        self._transport: asyncio.BaseTransport | None = None

    def reset_counters(self) -> None:
        """The next statement may have as much again."""
        self.received_bytes = 0
        self._headers.message_count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.violation is not None:
            return
        self.received_bytes += len(data)
        try:
            self._check(data)
            self.inner.data_received(data)
        except UnexpectedMessage as refusal:
            self._abort(refusal)
        except Exception as error:  # noqa: BLE001  the driver fails in many ways at what no Postgres sends
            self._abort(UnexpectedMessage(f"it sent what cannot be read ({type(error).__name__})"))

    def eof_received(self) -> bool | None:
        return bool(self.inner.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self.inner.connection_lost(self.violation or exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def _check(self, data: bytes) -> None:
        if not self._headers.is_ready and self.received_bytes > MAX_STARTUP_BYTES:
            raise UnexpectedMessage(f"it sent more than {MAX_STARTUP_BYTES} bytes before it was ready")
        if self.received_bytes > self._limits.bytes:
            raise UnexpectedMessage(f"it sent more than {self._limits.bytes} bytes for one statement")
        self._headers.feed(data)

    def _abort(self, refusal: UnexpectedMessage) -> None:
        self.violation = refusal
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()


class LimitedEventLoop:
    """The running event loop for the driver, but for how it connects. It equals that loop, which tasks are known by."""

    def __init__(self, limits: ResponseLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
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
        made = LimitedProtocol(inner, self._limits)
        if self.protocol is None:
            self.protocol = made
        return made

"""A driver connection that limits how much the server may send and rejects messages that Postgres would not send.

Any program that the project's user started may listen on the socket of a compute. The driver buffers data until a
message is complete, performs the computation that an authentication request asks for, and allocates arrays of the
announced length. Therefore a protocol in front of it counts the bytes and checks the header of each message.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import asyncpg

from bough.engine.local.computes.message_headers import MessageHeaderReader, ResponseLimits, UnexpectedMessage

MAX_STARTUP_BYTES = 64 * 1024  # Postgres sends a few hundred

# Errors that the driver raises for a genuine Postgres server.
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


async def await_driver(call: Coroutine[Any, Any, Any]) -> Any:
    """Await a call of the driver. Errors other than DRIVER_ERRORS, which no Postgres causes, become a ValueError."""
    try:
        return await call
    except DRIVER_ERRORS:
        raise
    except Exception as error:
        raise ValueError("the driver cannot parse the response") from error


class LimitedProtocol(asyncio.Protocol):
    """Passes everything on to the driver's protocol until the server violates a limit or the protocol."""

    def __init__(self, inner: Any, limits: ResponseLimits) -> None:
        self.inner = inner
        self.received_bytes = 0  # since the current statement began
        self.violation: UnexpectedMessage | None = None
        self._limits = limits
        self._headers = MessageHeaderReader(limits)
        self._transport: asyncio.BaseTransport | None = None

    def reset_counters(self) -> None:
        """Start counting for the next statement."""
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
        except UnexpectedMessage as violation:
            self._abort(violation)
        except Exception as error:  # noqa: BLE001  invalid messages make the driver raise errors of many types
            self._abort(UnexpectedMessage(f"it sent an unreadable message ({type(error).__name__})"))

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

    def _abort(self, violation: UnexpectedMessage) -> None:
        self.violation = violation
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.abort()


class LimitedEventLoop:
    """The running event loop, except for how the driver connects.

    It compares equal to that loop, because asyncio checks which loop a task belongs to.
    """

    def __init__(self, limits: ResponseLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self.protocol: LimitedProtocol | None = None  # of the session; later connections only send cancel requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._loop

    def __hash__(self) -> int:
        return hash(self._loop)

    async def create_unix_connection(self, factory: Callable[[], Any], path: str) -> tuple[Any, Any]:
        transport, protocol = await self._loop.create_unix_connection(lambda: self._wrap(factory()), path)
        return transport, protocol.inner

    def _wrap(self, inner: Any) -> LimitedProtocol:
        protocol = LimitedProtocol(inner, self._limits)
        if self.protocol is None:
            self.protocol = protocol
        return protocol

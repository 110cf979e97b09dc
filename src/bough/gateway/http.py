"""A few connections to control that stay open, and one question at a time on each: HTTP/1.1, no more than we use.

A general client takes some milliseconds a question, which is a tenth of a wake.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import httptools

_IDLE = 16  # connections that are kept when nobody asks


class HttpResponse(NamedTuple):
    status: int
    body: Any


class ConnectionFailed(Exception):
    """Nobody listens there, or the connection ended before its answer."""


class UnixHttpClient:
    def __init__(self, socket_path: Path) -> None:
        self._socket = socket_path
        self._idle: list[_Connection] = []

    async def post(self, path: str, body: Any, timeout: float) -> HttpResponse:
        """A connection that was kept may have been closed meanwhile: then another is tried, once."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: control\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
        question = head.encode() + b"\r\n\r\n" + data
        try:
            async with asyncio.timeout(timeout):
                if self._idle:
                    try:
                        return await self._on(self._idle.pop(), question)
                    except ConnectionFailed:
                        self._close()
                return await self._on(await self._connected(), question)
        except TimeoutError:
            raise ConnectionFailed("no answer in time") from None

    async def close(self) -> None:
        self._close()

    def _close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _connected(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_unix_connection(_Connection, str(self._socket))
        except OSError as error:
            raise ConnectionFailed(str(error)) from error
        return connection

    async def _on(self, connection: "_Connection", question: bytes) -> HttpResponse:
        try:
            answer = await connection.send(question)
        except BaseException:
            connection.close()
            raise
        if connection.is_open and len(self._idle) < _IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return answer


class _Connection(asyncio.Protocol):
    """One question at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[HttpResponse] | None = None
        self._parser: Any = None
        self._pieces: list[bytes] = []
        self.is_open = False

    def send(self, question: bytes) -> "asyncio.Future[HttpResponse]":
        self._waiting = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._pieces = []
        if self._transport is None or not self.is_open:
            self._waiting.set_exception(ConnectionFailed("closed"))
        else:
            self._transport.write(question)
        return self._waiting

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    # What the loop tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.is_open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(str(error))
            self.close()

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False
        self._fail("the connection ended")

    # What the parser tells us.

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_open = self.is_open and self._parser.should_keep_alive()
        self._set_result(lambda: HttpResponse(self._parser.get_status_code(), json.loads(b"".join(self._pieces))))

    def _set_result(self, answer: Callable[[], HttpResponse]) -> None:
        if self._waiting is None or self._waiting.done():
            return
        try:
            self._waiting.set_result(answer())
        except ValueError as error:
            self._waiting.set_exception(ConnectionFailed(f"not an answer: {error}"))

    def _fail(self, why: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionFailed(why))

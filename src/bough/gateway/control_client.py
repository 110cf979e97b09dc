"""The control plane over HTTP/1.1, on control's Unix socket.

The client keeps a few connections open and sends one request at a time on each. It implements only what the
gateway uses: a general HTTP client takes several milliseconds per request, a tenth of a wake.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import httptools

from bough.domain.gateway_protocol import (
    ACCESS_PATH,
    REPLY_TIMEOUT_SECONDS,
    REPORT_PATH,
    WAKE_PATH,
    WAKE_REPLY_TIMEOUT_SECONDS,
    Access,
    AccessRequest,
    ComputeAddress,
    ErrorReply,
    WakeRequest,
)
from bough.domain.gateway_reports import ActivityReport, ReportReply
from bough.errors import ErrorKind, Internal, PlatformError
from bough.gateway.control_plane import ControlUnavailable
from bough.ids import EndpointId

_MAX_IDLE_CONNECTIONS = 16


class ControlError(PlatformError):
    """An error that control returned, with its kind."""

    def __init__(self, kind: ErrorKind, public_message: str) -> None:
        super().__init__(public_message)
        self.kind = kind  # type: ignore[misc]  # the class attribute is a default


class ControlClient:
    def __init__(self, socket_path: Path) -> None:
        self._http = UnixHttpClient(socket_path)

    async def close(self) -> None:
        await self._http.close()

    async def get_access(self, endpoint: EndpointId, role: str) -> Access:
        return Access.from_json(await self._post(ACCESS_PATH, AccessRequest(endpoint=endpoint, role=role).to_json()))

    async def wake(self, endpoint: EndpointId) -> ComputeAddress:
        request = WakeRequest(endpoint=endpoint).to_json()
        return ComputeAddress.from_json(await self._post(WAKE_PATH, request, timeout=WAKE_REPLY_TIMEOUT_SECONDS))

    async def report(self, report: ActivityReport) -> Sequence[EndpointId]:
        return ReportReply.from_json(await self._post(REPORT_PATH, report.to_json())).changed

    async def _post(self, path: str, body: Mapping[str, Any], timeout: float = REPLY_TIMEOUT_SECONDS) -> Any:
        try:
            response = await self._http.post(path, body, timeout)
        except ConnectionFailed as error:
            raise ControlUnavailable("The platform is restarting; try again in a moment.") from error
        if response.status == 200:
            return response.body
        raise _to_control_error(response)


class HttpResponse(NamedTuple):
    status: int
    body: Any


class ConnectionFailed(Exception):
    """Nothing listens on the socket, or the connection ended before the response."""


class UnixHttpClient:
    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._idle: list[_Connection] = []

    async def post(self, path: str, body: Any, timeout: float) -> HttpResponse:
        """Send the request, once more on a new connection if the server has closed the idle one."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: control\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
        request = head.encode() + b"\r\n\r\n" + data
        try:
            async with asyncio.timeout(timeout):
                if self._idle:
                    try:
                        return await self._send_on(self._idle.pop(), request)
                    except ConnectionFailed:
                        self._close_idle()
                return await self._send_on(await self._connect(), request)
        except TimeoutError:
            raise ConnectionFailed("no response in time") from None

    async def close(self) -> None:
        self._close_idle()

    def _close_idle(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_unix_connection(_Connection, str(self._socket_path))
        except OSError as error:
            raise ConnectionFailed(str(error)) from error
        return connection

    async def _send_on(self, connection: "_Connection", request: bytes) -> HttpResponse:
        try:
            response = await connection.send(request)
        except BaseException:
            connection.close()
            raise
        if connection.is_open and len(self._idle) < _MAX_IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
        return response


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[HttpResponse] | None = None
        self._parser: Any = None
        self._body: list[bytes] = []
        self.is_open = False

    def send(self, request: bytes) -> "asyncio.Future[HttpResponse]":
        self._response = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._body = []
        if self._transport is None or not self.is_open:
            self._response.set_exception(ConnectionFailed("closed"))
        else:
            self._transport.write(request)
        return self._response

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.close()

    # Callbacks of asyncio.

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

    # Callbacks of httptools.

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self.is_open = self.is_open and self._parser.should_keep_alive()
        self._set_result(lambda: HttpResponse(self._parser.get_status_code(), json.loads(b"".join(self._body))))

    def _set_result(self, parse: Callable[[], HttpResponse]) -> None:
        if self._response is None or self._response.done():
            return
        try:
            self._response.set_result(parse())
        except ValueError as error:
            self._response.set_exception(ConnectionFailed(f"the response is not JSON: {error}"))

    def _fail(self, reason: str) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(ConnectionFailed(reason))


def _to_control_error(response: HttpResponse) -> PlatformError:
    try:
        reply = ErrorReply.from_json(response.body)
    except (ValueError, KeyError, TypeError):
        return Internal(f"The platform answered with status {response.status}.")
    return ControlError(reply.kind, reply.message)

"""The internal API for the gateway: access, wake and report.

The gateway sends these requests over a socket that only its user can open, thousands per second under load,
so they bypass the middleware of the public API. The path carries a version because a draining gateway may be
older than this process.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope, Send

from bough import log
from bough.control.gateway.access import AccessResolver
from bough.control.gateway.activity import EndpointActivity
from bough.control.gateway.wakes import Wakes
from bough.domain.gateway_protocol import ACCESS_PATH, REPORT_PATH, WAKE_PATH, AccessRequest, ErrorReply, WakeRequest
from bough.domain.gateway_reports import ActivityReport, ReportReply
from bough.errors import Internal, Invalid, NotFound, PlatformError
from bough.http_statuses import STATUS_BY_KIND

_MAX_BODY_BYTES = 16 * 1024 * 1024  # a report of several hundred thousand endpoints

logger = log.get_logger(component="gateway_api")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayApiHandlers:
    """The three requests, as JSON in and out."""

    gateway_access: AccessResolver
    wakes: Wakes
    activity: EndpointActivity

    async def access(self, body: Any) -> dict[str, Any]:
        request = AccessRequest.from_json(body)
        return (await self.gateway_access.resolve(request.endpoint, request.role)).to_json()

    async def wake(self, body: Any) -> dict[str, Any]:
        return (await self.wakes.wake(WakeRequest.from_json(body).endpoint)).to_json()

    async def report(self, body: Any) -> dict[str, Any]:
        report = ActivityReport.from_json(body)
        changed = await self.activity.report(report.worker, report.sequence, report.endpoints)
        return ReportReply(changed=sorted(changed)).to_json()


class GatewayApiApp:
    """The requests as an ASGI application."""

    def __init__(self, handlers: GatewayApiHandlers) -> None:
        self._routes: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] = {
            ACCESS_PATH: handlers.access,
            WAKE_PATH: handlers.wake,
            REPORT_PATH: handlers.report,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            status, reply = 200, await self._handle(scope, receive)
        except PlatformError as error:
            status, reply = _error_reply(error)
        except Exception as error:
            logger.error("request_crashed", path=scope["path"], exc_info=error)
            status, reply = _error_reply(Internal("An internal error occurred. See control's log."))
        await _send(send, status, json.dumps(reply).encode())

    async def _handle(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        handler = self._routes.get(scope["path"])
        if handler is None or scope["method"] != "POST":
            raise NotFound(f"There is no such request. Use POST with one of {', '.join(self._routes)}.")
        return await handler(_parse_json(await _read_body(receive)))


async def _read_body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("The request ended before its body was complete.")
        chunk: bytes = message.get("body", b"")
        length += len(chunk)
        if length > _MAX_BODY_BYTES:
            raise Invalid(f"The request body is over {_MAX_BODY_BYTES} bytes long.")
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Invalid("The request is not valid: it must be JSON.") from error


def _error_reply(error: PlatformError) -> tuple[int, dict[str, Any]]:
    return STATUS_BY_KIND[error.kind], ErrorReply(kind=error.kind, message=error.public_message).to_json()


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

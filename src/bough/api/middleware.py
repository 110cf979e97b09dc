"""The outermost middleware: request ids, the body limit, a log line per request, and the handling of crashes.

No request can cause a response without the error body, or one with a stack trace.
"""

import re
import uuid
from http import HTTPMethod, HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bough import clock, log
from bough.api import errors, metrics
from bough.api.proxies import TrustedProxies

_VALID_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
# Secrets in paths, which must not be logged: each gives control of a project.
_SECRET = re.compile(r"(?<=/transfer_requests/)[^/]+|(?<=/claim/)[^/]+|(?<=/database/)[^/]+")
_METHODS = frozenset(HTTPMethod)  # unknown methods share one label, so that clients cannot create metric series
logger = log.get_logger(component="api")


class BodyTooLarge(HTTPException):
    """An HTTPException, because the framework treats any other error as a body that it cannot parse."""

    def __init__(self, limit: int) -> None:
        super().__init__(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The request body is over {limit} bytes.")


class RequestMiddleware:
    def __init__(self, app: ASGIApp, body_limit: int, proxies: TrustedProxies) -> None:
        self._app = app
        self._body_limit = body_limit
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._proxies.apply(scope)
        request_id = scope["request_id"] = _request_id(scope)
        started = clock.monotonic()
        sender = _ResponseSender(send, request_id)
        with log.bound(request_id=request_id):
            try:
                await self._app(scope, self._limited(scope, receive), sender.send)
            except Exception as error:
                logger.error("request_crashed", method=scope["method"], path=_path(scope), exc_info=error)
                await sender.send_error(scope, 500, errors.INTERNAL_ERROR_MESSAGE)
            self._record(scope, sender.status, clock.monotonic() - started)

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        announced, received = _content_length(scope), 0

        async def limited() -> Message:
            nonlocal received
            if announced > self._body_limit:
                raise BodyTooLarge(self._body_limit)
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._body_limit:
                raise BodyTooLarge(self._body_limit)
            return message

        return limited

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        metrics.REQUESTS.labels(method, route, status).inc()
        metrics.REQUEST_SECONDS.labels(route).observe(seconds)
        logger.info("request", method=scope["method"], path=_path(scope), status=status, ms=round(seconds * 1000, 1))


class _ResponseSender:
    """Forwards the response, adds the request id and records the status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message.setdefault("headers", []).append((b"x-request-id", self._request_id.encode()))
        await self._send(message)

    async def send_error(self, scope: Scope, status: int, message: str) -> None:
        if self.status:  # the response has started already; the connection is closed
            return
        response = errors.error_response(self._request_id, status, message)
        await response(scope, _receive_disconnect, self.send)


def _path(scope: Scope) -> str:
    return _SECRET.sub("…", scope["path"])


async def _receive_disconnect() -> Message:
    return {"type": "http.disconnect"}


def _content_length(scope: Scope) -> int:
    """Return the announced size of the body. Twenty digits are enough to tell that it is too large."""
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value.lstrip(b"0")[:20] or b"0")
    return 0


def _request_id(scope: Scope) -> str:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    for name, value in headers:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            if _VALID_REQUEST_ID.fullmatch(text):
                return text
    return str(uuid.uuid4())

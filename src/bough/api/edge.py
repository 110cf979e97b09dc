"""The outermost layer: request ids, the body limit, one log line a request, and the last resort.

Nothing a caller sends makes a stack trace or an answer without the error body.
"""

import re
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bough import clock, log
from bough.api import errors, metrics

_GOOD_ID = re.compile(r"[\x21-\x7e]{1,128}")
logger = log.get(room="api")


class BodyTooLarge(Exception):
    pass


class Edge:
    def __init__(self, app: ASGIApp, body_limit: int) -> None:
        self._app = app
        self._body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = scope["request_id"] = _request_id(scope)
        began = clock.monotonic()
        answer = _Answer(send, request_id)
        with log.bound(request_id=request_id):
            try:
                await self._app(scope, self._limited(scope, receive), answer.send)
            except BodyTooLarge:
                await answer.refuse(scope, 413, f"The request body is over {self._body_limit} bytes.")
            except Exception as error:
                logger.error("request_crashed", method=scope["method"], path=scope["path"], exc_info=error)
                await answer.refuse(scope, 500, "An internal error happened. The log has it under this request id.")
            self._record(scope, answer.status, clock.monotonic() - began)

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._body_limit:
                return _refusing
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._body_limit:
                raise BodyTooLarge
            return message

        return limited

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        metrics.REQUESTS.labels(scope["method"], route, status).inc()
        metrics.REQUEST_SECONDS.labels(route).observe(seconds)
        logger.info("request", method=scope["method"], path=scope["path"], status=status, ms=round(seconds * 1000, 1))


async def _refusing() -> Message:
    raise BodyTooLarge


class _Answer:
    """Passes the response on, adds the request id, remembers the status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message.setdefault("headers", []).append((b"x-request-id", self._request_id.encode()))
        await self._send(message)

    async def refuse(self, scope: Scope, status: int, sentence: str) -> None:
        if self.status:  # too late for another answer; the connection ends
            return
        response = errors.body(self._request_id, status, sentence)
        await response(scope, _nothing, self.send)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def _request_id(scope: Scope) -> str:
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    for name, value in headers:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            if _GOOD_ID.fullmatch(text):
                return text
    return str(uuid.uuid4())

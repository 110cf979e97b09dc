"""The gateway's three questions: who may enter, where is it, and what was used.

Asked over a socket that only the gateway's user can reach, thousands of times a second when it is busy, so
there is nothing between the question and its answer. The version is in the path: a gateway that serves its
old connections may be older than we are.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.types import Receive, Scope, Send

from bough import log
from bough.control.gateway.access import AccessResolver
from bough.control.gateway.activity import EndpointActivity, EndpointReport
from bough.control.gateway.wakes import Wakes
from bough.domain.pooler import PoolStats
from bough.domain.usage import EndpointTraffic
from bough.errors import ErrorKind, Internal, Invalid, NotFound, PlatformError
from bough.http_statuses import STATUS_BY_KIND
from bough.ids import EndpointId

PREFIX = "/plane/v1"
_LONGEST_BODY = 16 * 1024 * 1024  # a report of some hundred thousand endpoints

logger = log.get_logger(component="gateway_api")

_RequestText = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00]*$")]
_Count = Annotated[int, Field(ge=0, le=2**62)]
_Seconds = Annotated[float, Field(ge=0, le=2**62, allow_inf_nan=False)]


class _GatewayRequest(BaseModel):
    model_config = ConfigDict(frozen=True)


class _AccessRequest(_GatewayRequest):
    endpoint: _RequestText
    role: _RequestText


class _WakeRequest(_GatewayRequest):
    endpoint: _RequestText


class _PoolReport(_GatewayRequest):
    """Of those at the pools how many there are now; of waiting what there was since the report before."""

    clients_active: _Count = 0
    clients_waiting: _Count = 0
    clients_idle: _Count = 0
    servers_active: _Count = 0
    servers_idle: _Count = 0
    waits: _Count = 0
    waited_seconds: _Seconds = 0.0

    @property
    def now(self) -> PoolStats:
        return PoolStats(**self.model_dump(exclude={"waits", "waited_seconds"}))


class _EndpointReport(_GatewayRequest):
    endpoint: _RequestText
    bytes_in: _Count = 0
    bytes_out: _Count = 0
    opened: _Count = 0
    connections: _Count = 0
    is_active: bool = False
    pool: _PoolReport | None = None


class _ActivityReport(_GatewayRequest):
    worker: _RequestText
    sequence: _Count
    endpoints: list[_EndpointReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayApiHandlers:
    """What stands behind the three questions."""

    gateway_access: AccessResolver
    wakes: Wakes
    activity: EndpointActivity

    async def access(self, body: bytes) -> dict[str, Any]:
        asked = _AccessRequest.model_validate_json(body)
        found = await self.gateway_access.resolve(EndpointId(asked.endpoint), asked.role)
        until = found.valid_until
        return {
            "verifier": found.verifier,
            "is_known": found.is_known,
            "valid_until": until.isoformat().replace("+00:00", "Z") if until else None,
            "networks": found.allowed_networks,
            "refusal": found.rejection,
            "pool": asdict(found.pool),
            "closed": found.blocked_reason,
            "read_only_hint": found.read_only_hint,
        }

    async def wake(self, body: bytes) -> dict[str, Any]:
        address = await self.wakes.wake(EndpointId(_WakeRequest.model_validate_json(body).endpoint))
        return {"host": address.host, "port": address.port}

    async def report(self, body: bytes) -> dict[str, Any]:
        report = _ActivityReport.model_validate_json(body)
        changed = await self.activity.report(
            report.worker, report.sequence, [_to_endpoint_activity(each) for each in report.endpoints]
        )
        return {"drop": sorted(changed)}


def _to_endpoint_activity(used: _EndpointReport) -> EndpointReport:
    moved = EndpointTraffic(
        endpoint_id=EndpointId(used.endpoint),
        bytes_in=used.bytes_in,
        bytes_out=used.bytes_out,
        connections_opened=used.opened,
    )
    told = EndpointReport(traffic=moved, connections=used.connections, is_active=used.is_active)
    if used.pool is None:
        return told
    return replace(told, pool=used.pool.now, pool_waits=used.pool.waits, pool_wait_seconds=used.pool.waited_seconds)


class GatewayApiApp:
    """The questions as an ASGI application."""

    def __init__(self, handlers: GatewayApiHandlers) -> None:
        self._routes: dict[str, Callable[[bytes], Awaitable[dict[str, Any]]]] = {
            f"{PREFIX}/access": handlers.access,
            f"{PREFIX}/wake": handlers.wake,
            f"{PREFIX}/report": handlers.report,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            status, answer = 200, await self._answer(scope, receive)
        except ValidationError as error:
            status, answer = _error_response(Invalid(f"The question is not valid: {_first_error(error)}."))
        except PlatformError as error:
            status, answer = _error_response(error)
        except Exception as error:
            logger.error("question_crashed", path=scope["path"], exc_info=error)
            status, answer = _error_response(Internal("An internal error happened; control's log has it."))
        await _send(send, status, json.dumps(answer).encode())

    async def _answer(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        question = self._routes.get(scope["path"])
        if question is None or scope["method"] != "POST":
            raise NotFound(f"There is no such question; ask with POST {', '.join(self._routes)}.")
        return await question(await _body(receive))


async def _body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("The question was cut off.")
        piece: bytes = message.get("body", b"")
        length += len(piece)
        if length > _LONGEST_BODY:
            raise Invalid(f"The question is over {_LONGEST_BODY} bytes.")
        pieces.append(piece)
        if not message.get("more_body"):
            return b"".join(pieces)


def _error_response(error: PlatformError) -> tuple[int, dict[str, Any]]:
    return STATUS_BY_KIND[error.kind], {"kind": ErrorKind(error.kind).value, "message": error.public_message}


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

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
from bough.control.activity import Activity, Told
from bough.control.entrance import Entrance
from bough.control.wakes import Wakes
from bough.domain.pooler import PoolNow
from bough.domain.usage import Moved
from bough.errors import Internal, Invalid, Kind, NotFound, PlatformError
from bough.http_statuses import STATUS
from bough.ids import EndpointId

PREFIX = "/plane/v1"
_LONGEST_BODY = 16 * 1024 * 1024  # a report of some hundred thousand endpoints

logger = log.get(room="plane")

_Word = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00]*$")]
_Count = Annotated[int, Field(ge=0, le=2**62)]
_Seconds = Annotated[float, Field(ge=0, le=2**62, allow_inf_nan=False)]


class _Question(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Access(_Question):
    endpoint: _Word
    role: _Word


class _Wake(_Question):
    endpoint: _Word


class _Pool(_Question):
    """Of those at the pools how many there are now; of waiting what there was since the report before."""

    clients_active: _Count = 0
    clients_waiting: _Count = 0
    clients_idle: _Count = 0
    servers_active: _Count = 0
    servers_idle: _Count = 0
    waits: _Count = 0
    waited_seconds: _Seconds = 0.0

    @property
    def now(self) -> PoolNow:
        return PoolNow(**self.model_dump(exclude={"waits", "waited_seconds"}))


class _Used(_Question):
    endpoint: _Word
    bytes_in: _Count = 0
    bytes_out: _Count = 0
    opened: _Count = 0
    connections: _Count = 0
    is_active: bool = False
    pool: _Pool | None = None


class _Report(_Question):
    worker: _Word
    sequence: _Count
    endpoints: list[_Used]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """What stands behind the three questions."""

    entrance: Entrance
    wakes: Wakes
    activity: Activity

    async def access(self, body: bytes) -> dict[str, Any]:
        asked = _Access.model_validate_json(body)
        found = await self.entrance.access(EndpointId(asked.endpoint), asked.role)
        until = found.valid_until
        return {
            "verifier": found.verifier,
            "is_known": found.is_known,
            "valid_until": until.isoformat().replace("+00:00", "Z") if until else None,
            "networks": found.networks,
            "refusal": found.refusal,
            "pool": asdict(found.pool),
            "closed": found.closed,
            "read_only_hint": found.read_only_hint,
        }

    async def wake(self, body: bytes) -> dict[str, Any]:
        address = await self.wakes.wake(EndpointId(_Wake.model_validate_json(body).endpoint))
        return {"host": address.host, "port": address.port}

    async def report(self, body: bytes) -> dict[str, Any]:
        report = _Report.model_validate_json(body)
        changed = await self.activity.report(report.worker, report.sequence, [_told(each) for each in report.endpoints])
        return {"drop": sorted(changed)}


def _told(used: _Used) -> Told:
    moved = Moved(
        endpoint_id=EndpointId(used.endpoint), bytes_in=used.bytes_in, bytes_out=used.bytes_out, opened=used.opened
    )
    told = Told(moved=moved, connections=used.connections, is_active=used.is_active)
    if used.pool is None:
        return told
    return replace(told, pool=used.pool.now, waits=used.pool.waits, waited_seconds=used.pool.waited_seconds)


class PlaneApp:
    """The questions as an ASGI application."""

    def __init__(self, plane: Plane) -> None:
        self._routes: dict[str, Callable[[bytes], Awaitable[dict[str, Any]]]] = {
            f"{PREFIX}/access": plane.access,
            f"{PREFIX}/wake": plane.wake,
            f"{PREFIX}/report": plane.report,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            status, answer = 200, await self._answer(scope, receive)
        except ValidationError as error:
            status, answer = _refusal(Invalid(f"The question is not valid: {_fault(error)}."))
        except PlatformError as error:
            status, answer = _refusal(error)
        except Exception as error:
            logger.error("question_crashed", path=scope["path"], exc_info=error)
            status, answer = _refusal(Internal("An internal error happened; control's log has it."))
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


def _refusal(error: PlatformError) -> tuple[int, dict[str, Any]]:
    return STATUS[error.kind], {"kind": Kind(error.kind).value, "message": error.public}


def _fault(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

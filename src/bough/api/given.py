"""What handlers may ask for: the caller, a project held for a right, a desk for decisions."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from bough import ids
from bough.access import lookup
from bough.access.keys import Keys
from bough.access.principal import Principal, Right
from bough.access.vault import Vault
from bough.api.limits import Limiter
from bough.config import Settings
from bough.control.activity import Activity
from bough.control.desk import Desk
from bough.control.figures import Figures
from bough.control.key_use import KeyUse
from bough.control.names import Names
from bough.control.once import LONGEST, Once
from bough.domain.endpoint import Hosts
from bough.domain.project import Project
from bough.engine.port import Engine
from bough.errors import Invalid, Unauthenticated
from bough.ids import ProjectId
from bough.operations.queue import Queue
from bough.store.store import Store

bearer = HTTPBearer(auto_error=False, scheme_name="BearerAuth", description="An API key of this installation.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the edges are built on; made once, in app.py."""

    settings: Settings
    store: Store
    queue: Queue
    engine: Engine
    vault: Vault
    keys: Keys
    hosts: Hosts
    names: Names
    limiter: Limiter
    key_use: KeyUse
    figures: Figures
    activity: Activity


class Replay(Exception):
    """This request was answered before; give that answer again."""

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        self.body = body


def parts_of(request: Request) -> Parts:
    found: Parts = request.app.state.parts
    return found


async def parts(request: Request) -> Parts:
    """Async, because the framework takes a thread for anything that is not."""
    return parts_of(request)


PartsGiven = Annotated[Parts, Depends(parts)]


async def principal(request: Request, given: PartsGiven, _documented: Annotated[Any, Depends(bearer)]) -> Principal:
    return await _authenticated(request, given)


async def _authenticated(request: Request, given: Parts) -> Principal:
    """The caller, found and counted once a request."""
    known: Principal | None = getattr(request.state, "principal", None)
    if known is not None:
        return known
    address = request.client.host if request.client else ""
    try:
        token = _token(request)
        async with given.store.read() as rows:
            found = await given.keys.principal(rows, token)
    except Unauthenticated:
        given.limiter.take_address(address)
        raise
    given.limiter.take(found.key_id, f"{request.method} {request.scope['route'].path}")
    given.key_use.note(found.key_id, address)
    request.state.principal = found
    return found


PrincipalGiven = Annotated[Principal, Depends(principal)]


def _token(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise Unauthenticated("This call needs an API key. Send the header `Authorization: Bearer <key>`.")
    return token.strip()


async def desk(request: Request, given: PartsGiven, caller: PrincipalGiven) -> Desk:
    once = await _once(request, given, caller)
    request.state.once = once
    able = given.engine.capabilities()
    return Desk(
        principal=caller,
        request_id=request.scope["request_id"],
        store=given.store,
        queue=given.queue,
        vault=given.vault,
        settings=given.settings,
        hosts=given.hosts,
        names=given.names,
        activity=given.activity,
        installs=able.installs,
        refuses_new=able.refuses_new,
        once=once,
    )


DeskGiven = Annotated[Desk, Depends(desk)]


async def _once(request: Request, given: Parts, caller: Principal) -> Once | None:
    key = request.headers.get("idempotency-key")
    if key is None or request.method != "POST":
        return None
    if not 0 < len(key) <= LONGEST:
        raise Invalid(f"The Idempotency-Key header takes 1 to {LONGEST} characters.")
    once = Once(caller, key, f"{request.method} {request.url.path}\n".encode() + await request.body())
    if answer := await once.answer(given.store, given.vault):
        raise Replay(*answer)
    return once


class OnceRoute(APIRoute):
    """Knows the caller before it reads a body, and keeps the answer to a POST that carried an Idempotency-Key."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            given = parts_of(request)
            await _authenticated(request, given)
            response = await handle(request)
            once: Once | None = getattr(request.state, "once", None)
            if once is not None and once.reserved:
                await once.keep(given.store, given.vault, response.status_code, bytes(response.body).decode())
            return response

        return handle_once


def _held(right: Right, *, deleted: bool = False) -> Any:
    async def hold(
        project_id: Annotated[str, Path(pattern=ids.PATTERN)], given: PartsGiven, caller: PrincipalGiven
    ) -> Project:
        async with given.store.read() as rows:
            return await lookup.project(rows, caller, ProjectId(project_id), to=right, deleted=deleted)

    return Depends(hold)


ReadableProject = Annotated[Project, _held(Right.READ)]
WritableProject = Annotated[Project, _held(Right.WRITE)]
DeletableProject = Annotated[Project, _held(Right.DELETE)]
RecoverableProject = Annotated[Project, _held(Right.DELETE, deleted=True)]

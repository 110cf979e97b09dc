"""What handlers may ask for: the caller, a project held for a right, a desk for decisions."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Path, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from bough import ids
from bough.access import lookup
from bough.access.keys import public_part
from bough.access.metrics_token import is_metrics_token
from bough.access.principal import Principal
from bough.control.desk import Desk
from bough.control.once import LONGEST, Once
from bough.control.parts import Parts
from bough.control.recording import Record
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import OrgRight, Right
from bough.errors import Denied, Invalid, Unauthenticated
from bough.ids import OrganizationId, ProjectId

_TOLD_APART = ("project_id", "org_id", "source_org_id", "request_id")  # the last is a secret
bearer = HTTPBearer(auto_error=False, scheme_name="BearerAuth", description="An API key of this installation.")


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
    address, public = _address(request), ""
    try:
        token = _token(request)
        public = public_part(token)
        async with given.store.read() as rows:
            found = await given.keys.principal(rows, token)
    except Unauthenticated:
        given.limiter.guessed_wrong(address, public)
        raise
    given.limiter.check_guesses(address, public)
    assert found.key_id is not None
    given.limiter.take(found.key_id, f"{request.method} {request.scope['route'].path}")
    given.key_use.note(found.key_id, address)
    request.state.principal = found
    return found


PrincipalGiven = Annotated[Principal, Depends(principal)]


def _token(request: Request) -> str:
    token = _bearer(request)
    if not token:
        raise Unauthenticated("This call needs an API key. Send the header `Authorization: Bearer <key>`.")
    return token


def _bearer(request: Request) -> str:
    """Empty when there is none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


async def desk(request: Request, given: PartsGiven, caller: PrincipalGiven) -> Desk:
    once = await _once(request, given, caller)
    request.state.once = once
    return given.desk(caller, _record(request, caller), once)


DeskGiven = Annotated[Desk, Depends(desk)]


async def check_reads_metrics(request: Request, given: PartsGiven) -> None:
    """The figures name endpoints, projects and branches of everybody."""
    if given.settings.metrics_open or is_metrics_token(given.settings, _bearer(request)):
        return
    caller = await _authenticated(request, given)
    if not caller.is_operator:
        raise Denied("Only the operator's key and the token in keys/metrics of the home may read these figures.")


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _record(request: Request, caller: Principal) -> Record:
    """What the audit will say of this request, should it change something: named after the route."""
    known: Record | None = getattr(request.state, "record", None)
    if known is None:
        inner = [value for name, value in request.path_params.items() if name not in _TOLD_APART]
        known = request.state.record = Record(
            caller.actor,
            request.scope["route"].name,
            address=_address(request),
            request_id=request.scope["request_id"],
            thing="/".join(map(str, inner)),
        )
    return known


async def _once(request: Request, given: Parts, caller: Principal) -> Once | None:
    key = request.headers.get("idempotency-key")
    if key is None or request.method != "POST":
        return None
    if not 0 < len(key) <= LONGEST:
        raise Invalid(f"The Idempotency-Key header takes 1 to {LONGEST} characters.")
    asked = f"?{request.url.query}" if request.url.query else ""
    once = Once(caller, key, f"{request.method} {request.url.path}{asked}\n".encode() + await request.body())
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
        request: Request,
        project_id: Annotated[str, Path(pattern=ids.PATTERN)],
        given: PartsGiven,
        caller: PrincipalGiven,
    ) -> Project:
        async with given.store.read() as rows:
            found = await lookup.project(rows, caller, ProjectId(project_id), to=right, deleted=deleted)
        _record(request, caller).about(org_id=found.org_id, project_id=found.id)
        return found

    return Depends(hold)


def _held_organization(right: OrgRight) -> Any:
    async def hold(
        request: Request, org_id: Annotated[str, Path(pattern=ids.PATTERN)], caller: PrincipalGiven
    ) -> Organization:
        found = caller.organization(OrganizationId(org_id), to=right)
        _record(request, caller).about(org_id=found.id)
        return found

    return Depends(hold)


ReadableProject = Annotated[Project, _held(Right.READ)]
ConnectableProject = Annotated[Project, _held(Right.CONNECT)]
WritableProject = Annotated[Project, _held(Right.WRITE)]
PeopledProject = Annotated[Project, _held(Right.SEE_PEOPLE)]
SharableProject = Annotated[Project, _held(Right.SHARE)]
TransferableProject = Annotated[Project, _held(Right.TRANSFER)]
DeletableProject = Annotated[Project, _held(Right.DELETE)]
RecoverableProject = Annotated[Project, _held(Right.DELETE, deleted=True)]

ReadableOrganization = Annotated[Organization, _held_organization(OrgRight.READ)]
PeopledOrganization = Annotated[Organization, _held_organization(OrgRight.SEE_MEMBERS)]
KeyedOrganization = Annotated[Organization, _held_organization(OrgRight.MAKE_PROJECT_KEYS)]
ManagedOrganization = Annotated[Organization, _held_organization(OrgRight.MANAGE)]

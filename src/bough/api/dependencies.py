"""What handlers may ask for: the caller, a project held for a right, a context for decisions."""

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
from bough.control.audit import AuditRecord
from bough.control.context import Context
from bough.control.idempotency import MAX_LENGTH, IdempotencyKey
from bough.control.services import Services
from bough.domain.organization import Organization
from bough.domain.project import Project
from bough.domain.rights import OrgRight, Right
from bough.errors import Denied, Invalid, Unauthenticated
from bough.ids import OrganizationId, ProjectId

_OTHER_AUDIT_COLUMNS = ("project_id", "org_id", "source_org_id", "request_id")  # the last is a secret
bearer_scheme = HTTPBearer(auto_error=False, scheme_name="BearerAuth", description="An API key of this installation.")


class IdempotentReplay(Exception):
    """This request was answered before; give that answer again."""

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        self.body = body


def services_from(request: Request) -> Services:
    found: Services = request.app.state.parts
    return found


async def get_services(request: Request) -> Services:
    """Async, because the framework takes a thread for anything that is not."""
    return services_from(request)


ServicesDep = Annotated[Services, Depends(get_services)]


async def get_principal(
    request: Request, services: ServicesDep, _documented: Annotated[Any, Depends(bearer_scheme)]
) -> Principal:
    return await _authenticated(request, services)


async def _authenticated(request: Request, given: Services) -> Principal:
    """The caller, found and counted once a request."""
    known: Principal | None = getattr(request.state, "principal", None)
    if known is not None:
        return known
    address, public = _address(request), ""
    try:
        token = _token(request)
        public = public_part(token)
        async with given.store.read() as rows:
            found = await given.keys.authenticate(rows, token)
    except Unauthenticated:
        given.rate_limiter.record_wrong_key(address, public)
        raise
    given.rate_limiter.check_key_guesses(address, public)
    assert found.key_id is not None
    given.rate_limiter.take(found.key_id, f"{request.method} {request.scope['route'].path}")
    given.key_usage.record(found.key_id, address)
    request.state.principal = found
    return found


PrincipalDep = Annotated[Principal, Depends(get_principal)]


def _token(request: Request) -> str:
    token = _bearer(request)
    if not token:
        raise Unauthenticated("This call needs an API key. Send the header `Authorization: Bearer <key>`.")
    return token


def _bearer(request: Request) -> str:
    """Empty when there is none."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


async def get_context(request: Request, services: ServicesDep, caller: PrincipalDep) -> Context:
    once = await _idempotency_key(request, services, caller)
    request.state.once = once
    return Context(services=services, principal=caller, audit=_audit_record(request, caller), idempotency_key=once)


ContextDep = Annotated[Context, Depends(get_context)]


async def check_metrics_access(request: Request, services: ServicesDep) -> None:
    """The figures name endpoints, projects and branches of everybody."""
    if services.settings.metrics_open or is_metrics_token(services.settings, _bearer(request)):
        return
    caller = await _authenticated(request, services)
    if not caller.is_operator:
        raise Denied("Only the operator's key and the token in keys/metrics of the home may read these figures.")


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _audit_record(request: Request, caller: Principal) -> AuditRecord:
    """What the audit will say of this request, should it change something: named after the route."""
    known: AuditRecord | None = getattr(request.state, "record", None)
    if known is None:
        inner = [value for name, value in request.path_params.items() if name not in _OTHER_AUDIT_COLUMNS]
        known = request.state.record = AuditRecord(
            caller.actor,
            request.scope["route"].name,
            address=_address(request),
            request_id=request.scope["request_id"],
            thing="/".join(map(str, inner)),
        )
    return known


async def _idempotency_key(request: Request, given: Services, caller: Principal) -> IdempotencyKey | None:
    key = request.headers.get("idempotency-key")
    if key is None or request.method != "POST":
        return None
    if not 0 < len(key) <= MAX_LENGTH:
        raise Invalid(f"The Idempotency-Key header takes 1 to {MAX_LENGTH} characters.")
    asked = f"?{request.url.query}" if request.url.query else ""
    once = IdempotencyKey(caller, key, f"{request.method} {request.url.path}{asked}\n".encode() + await request.body())
    if answer := await once.find_response(given.store, given.vault):
        raise IdempotentReplay(*answer)
    return once


class IdempotentRoute(APIRoute):
    """Knows the caller before it reads a body, and keeps the answer to a POST that carried an Idempotency-Key."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            given = services_from(request)
            await _authenticated(request, given)
            response = await handle(request)
            once: IdempotencyKey | None = getattr(request.state, "once", None)
            if once is not None and once.is_reserved:
                await once.store_response(given.store, given.vault, response.status_code, bytes(response.body).decode())
            return response

        return handle_once


def _project_dependency(right: Right, *, deleted: bool = False) -> Any:
    async def hold(
        request: Request,
        project_id: Annotated[str, Path(pattern=ids.PATTERN)],
        given: ServicesDep,
        caller: PrincipalDep,
    ) -> Project:
        async with given.store.read() as rows:
            found = await lookup.project(rows, caller, ProjectId(project_id), right=right, include_deleted=deleted)
        _audit_record(request, caller).add_details(org_id=found.org_id, project_id=found.id)
        return found

    return Depends(hold)


def _organization_dependency(right: OrgRight) -> Any:
    async def hold(
        request: Request, org_id: Annotated[str, Path(pattern=ids.PATTERN)], caller: PrincipalDep
    ) -> Organization:
        found = caller.organization(OrganizationId(org_id), right=right)
        _audit_record(request, caller).add_details(org_id=found.id)
        return found

    return Depends(hold)


ReadableProject = Annotated[Project, _project_dependency(Right.READ)]
ConnectableProject = Annotated[Project, _project_dependency(Right.CONNECT)]
WritableProject = Annotated[Project, _project_dependency(Right.WRITE)]
MembersReadableProject = Annotated[Project, _project_dependency(Right.SEE_PEOPLE)]
SharableProject = Annotated[Project, _project_dependency(Right.SHARE)]
TransferableProject = Annotated[Project, _project_dependency(Right.TRANSFER)]
DeletableProject = Annotated[Project, _project_dependency(Right.DELETE)]
RecoverableProject = Annotated[Project, _project_dependency(Right.DELETE, deleted=True)]

ReadableOrganization = Annotated[Organization, _organization_dependency(OrgRight.READ)]
MembersReadableOrganization = Annotated[Organization, _organization_dependency(OrgRight.SEE_MEMBERS)]
KeysWritableOrganization = Annotated[Organization, _organization_dependency(OrgRight.MAKE_PROJECT_KEYS)]
ManageableOrganization = Annotated[Organization, _organization_dependency(OrgRight.MANAGE)]

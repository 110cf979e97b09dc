"""Dependencies of the handlers: the caller, a project or organization after an access check, and the context."""

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
from bough.http_requests import client_address, services_from
from bough.ids import OrganizationId, ProjectId

_OTHER_AUDIT_COLUMNS = (
    "project_id",
    "org_id",
    "source_org_id",
    "request_id",
)  # the last one is a secret of a transfer
bearer_scheme = HTTPBearer(auto_error=False, scheme_name="BearerAuth", description="An API key of this installation.")


class IdempotentReplay(Exception):
    """The request has been answered before. The handler repeats the stored response."""

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        self.body = body


async def get_services(request: Request) -> Services:
    """Async, because FastAPI runs other dependencies in a thread."""
    return services_from(request)


ServicesDep = Annotated[Services, Depends(get_services)]


async def get_principal(
    request: Request, services: ServicesDep, _documented: Annotated[Any, Depends(bearer_scheme)]
) -> Principal:
    return await _authenticate(request, services)


async def _authenticate(request: Request, services: Services) -> Principal:
    """Authenticate the caller and count the request against the rate limit, once per request."""
    known: Principal | None = getattr(request.state, "principal", None)
    if known is not None:
        return known
    address, public = client_address(request), ""
    try:
        token = _token(request)
        public = public_part(token)
        async with services.store.read() as rows:
            principal = await services.keys.authenticate(rows, token)
    except Unauthenticated:
        services.rate_limiter.record_wrong_key(address, public)
        raise
    services.rate_limiter.check_key_guesses(address, public)
    assert principal.key_id is not None
    services.rate_limiter.take(principal.key_id, f"{request.method} {request.scope['route'].path}")
    services.key_usage.record(principal.key_id, address)
    request.state.principal = principal
    return principal


PrincipalDep = Annotated[Principal, Depends(get_principal)]


def _token(request: Request) -> str:
    token = _bearer(request)
    if not token:
        raise Unauthenticated("This request needs an API key. Send the header `Authorization: Bearer <key>`.")
    return token


def _bearer(request: Request) -> str:
    """Return an empty string if there is no token."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


async def get_context(request: Request, services: ServicesDep, caller: PrincipalDep) -> Context:
    idempotency_key = await _idempotency_key(request, services, caller)
    request.state.idempotency_key = idempotency_key
    return Context(
        services=services,
        principal=caller,
        audit=_audit_record(request, caller),
        idempotency_key=idempotency_key,
    )


ContextDep = Annotated[Context, Depends(get_context)]


async def require_operator(caller: PrincipalDep) -> Principal:
    if not caller.is_operator:
        raise Denied("Only the operator may do this. Use the key in keys/operator of the home.")
    return caller


OperatorDep = Annotated[Principal, Depends(require_operator)]


async def check_metrics_access(request: Request, services: ServicesDep) -> None:
    """Restrict access, because metrics contain the ids of all endpoints, projects and branches."""
    if services.settings.metrics_open or is_metrics_token(services.settings, _bearer(request)):
        return
    caller = await _authenticate(request, services)
    if not caller.is_operator:
        raise Denied("Only the operator's key and the token in keys/metrics of the home can read the metrics.")


def _audit_record(request: Request, caller: Principal) -> AuditRecord:
    """Create the audit record that is stored if the request changes something. The route names the action."""
    known: AuditRecord | None = getattr(request.state, "audit_record", None)
    if known is None:
        inner = [value for name, value in request.path_params.items() if name not in _OTHER_AUDIT_COLUMNS]
        known = request.state.audit_record = AuditRecord(
            caller.actor,
            request.scope["route"].name,
            address=client_address(request),
            request_id=request.scope["request_id"],
            resource="/".join(map(str, inner)),
        )
    return known


async def _idempotency_key(request: Request, services: Services, caller: Principal) -> IdempotencyKey | None:
    key = request.headers.get("idempotency-key")
    if key is None or request.method != "POST":
        return None
    if not 0 < len(key) <= MAX_LENGTH:
        raise Invalid(f"The Idempotency-Key header must have 1 to {MAX_LENGTH} characters.")
    query = f"?{request.url.query}" if request.url.query else ""
    fingerprint = f"{request.method} {request.url.path}{query}\n".encode() + await request.body()
    idempotency_key = IdempotencyKey(caller, key, fingerprint)
    if response := await idempotency_key.find_response(services.store, services.vault):
        raise IdempotentReplay(*response)
    return idempotency_key


class IdempotentRoute(APIRoute):
    """Authenticates before it reads the body, and stores responses to POST requests with an Idempotency-Key."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_idempotent(request: Request) -> Response:
            services = services_from(request)
            await _authenticate(request, services)
            response = await handle(request)
            key: IdempotencyKey | None = getattr(request.state, "idempotency_key", None)
            if key is not None and key.is_reserved:
                body = bytes(response.body).decode()
                await key.store_response(services.store, services.vault, response.status_code, body)
            return response

        return handle_idempotent


def _project_dependency(right: Right, *, deleted: bool = False) -> Any:
    async def resolve(
        request: Request,
        project_id: Annotated[str, Path(pattern=ids.PATTERN)],
        services: ServicesDep,
        caller: PrincipalDep,
    ) -> Project:
        async with services.store.read() as rows:
            project = await lookup.project(rows, caller, ProjectId(project_id), right=right, include_deleted=deleted)
        _audit_record(request, caller).add_details(org_id=project.org_id, project_id=project.id)
        return project

    return Depends(resolve)


def _organization_dependency(right: OrgRight) -> Any:
    async def resolve(
        request: Request, org_id: Annotated[str, Path(pattern=ids.PATTERN)], caller: PrincipalDep
    ) -> Organization:
        organization = caller.organization(OrganizationId(org_id), right=right)
        _audit_record(request, caller).add_details(org_id=organization.id)
        return organization

    return Depends(resolve)


ReadableProject = Annotated[Project, _project_dependency(Right.READ)]
ConnectableProject = Annotated[Project, _project_dependency(Right.CONNECT)]
StatementsReadableProject = Annotated[Project, _project_dependency(Right.SEE_STATEMENTS)]
WritableProject = Annotated[Project, _project_dependency(Right.WRITE)]
MembersReadableProject = Annotated[Project, _project_dependency(Right.SEE_MEMBERS)]
SharableProject = Annotated[Project, _project_dependency(Right.SHARE)]
TransferableProject = Annotated[Project, _project_dependency(Right.TRANSFER)]
DeletableProject = Annotated[Project, _project_dependency(Right.DELETE)]
RecoverableProject = Annotated[Project, _project_dependency(Right.DELETE, deleted=True)]

ReadableOrganization = Annotated[Organization, _organization_dependency(OrgRight.READ)]
MembersReadableOrganization = Annotated[Organization, _organization_dependency(OrgRight.SEE_MEMBERS)]
KeysWritableOrganization = Annotated[Organization, _organization_dependency(OrgRight.CREATE_PROJECT_KEYS)]
ManageableOrganization = Annotated[Organization, _organization_dependency(OrgRight.MANAGE)]

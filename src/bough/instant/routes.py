"""Creates and reads instant databases. Access only needs the id."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic_core import to_json

from bough.control.audit import AuditRecord
from bough.control.instant.creation import RequestedInstantDatabase, create_instant_database
from bough.control.instant.databases import InstantDatabaseDetails, get_instant_database
from bough.control.instant.unclaimed import create_unclaimed_context
from bough.domain.audit import Actor, ActorKind
from bough.errors import Conflict, Invalid, NotFound
from bough.http_requests import client_address, services_from
from bough.ids import InstantId
from bough.instant import schemas
from bough.instant.errors import ErrorView, InstantApiRoute, NoSuchDatabase
from bough.instant.schemas import DatabaseSettings, InstantDatabaseCreate, InstantDatabaseView

PREFIX = "/api/v1"


def _errors(**described: str) -> dict[int | str, dict[str, Any]]:
    return {int(status[1:]): {"model": ErrorView, "description": text} for status, text in described.items()}


_RATE = (
    "Bough only: too many requests or new databases, from this address or in total. `Retry-After` tells when to retry."
)
_NO_CAPACITY = "Bough only: the installation has no capacity for another database, or has disabled them."
_ON_CREATE = _errors(
    _400="`Missing referrer`, with a `hint`; or an invalid referrer.",
    _403="Bough only: this installation has disabled instant databases.",
    _413="Bough only: the body is too large.",
    _429=_RATE,
    _500="`Failed to create the database.`: the body is not JSON, or a parameter has a wrong type.",
    _503=_NO_CAPACITY,
)
_ON_GET = _errors(_400="`Database not found`: an unknown, expired or malformed id.", _429=_RATE)

router = APIRouter(prefix=PREFIX, route_class=InstantApiRoute, tags=["Instant database"])


def _documented(model: type[DatabaseSettings]) -> dict[str, Any]:
    """Document the body, which the handler parses itself because of the API's own error messages."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post(
    "/database",
    status_code=201,
    response_model=InstantDatabaseView,
    responses=_ON_CREATE,
    openapi_extra=_documented(InstantDatabaseCreate),
)
async def create_database(request: Request) -> Response:
    """Create a database. Its connection string works as soon as the response arrives."""
    _check_rate_limit(request)
    body = schemas.parse_create(await request.body())
    requested = RequestedInstantDatabase(
        ref=schemas.check_referrer(body.ref), logical_replication=body.enable_logical_replication
    )
    return _response(await _create(request, requested), 201)


@router.post(
    "/database/{database_id}",
    status_code=201,
    response_model=InstantDatabaseView,
    responses=_ON_CREATE,
    openapi_extra=_documented(DatabaseSettings),
)
async def create_named_database(
    request: Request, database_id: str, referrer: Annotated[str | None, Query()] = None
) -> Response:
    """Create a database with your own UUID, which must be secret and unused."""
    _check_rate_limit(request)
    body = schemas.parse_settings(await request.body())
    requested = RequestedInstantDatabase(
        ref=schemas.check_referrer(referrer), logical_replication=body.enable_logical_replication, id=_id(database_id)
    )
    try:
        created = await _create(request, requested)
    except Conflict:
        raise NoSuchDatabase from None
    return _response(created, 201)


@router.get("/database/{database_id}", response_model=InstantDatabaseView, responses=_ON_GET)
async def get_database(request: Request, database_id: str) -> Response:
    """Get a database."""
    _check_rate_limit(request)
    try:
        context = await create_unclaimed_context(services_from(request), _audit_record(request))
        return _response(await get_instant_database(context, _id(database_id)), 200)
    except NotFound:
        raise NoSuchDatabase from None


def _id(text: str) -> InstantId:
    try:
        return InstantId.parse(text)
    except Invalid:
        raise NoSuchDatabase from None


def _check_rate_limit(request: Request) -> None:
    """Limit clients by their address, because they have no account."""
    services_from(request).rate_limiter.take_address(client_address(request))


async def _create(request: Request, requested: RequestedInstantDatabase) -> InstantDatabaseDetails:
    return await create_instant_database(services_from(request), _audit_record(request), requested)


def _audit_record(request: Request) -> AuditRecord:
    """Create the audit record of a request."""
    actor = Actor(kind=ActorKind.ANONYMOUS, name="")
    address, request_id = client_address(request), request.scope["request_id"]
    return AuditRecord(actor, "create_instant_database", address=address, request_id=request_id)


def _response(details: InstantDatabaseDetails, status: int) -> Response:
    return Response(to_json(InstantDatabaseView.of(details)), status, media_type="application/json", headers=_NO_STORE)


_NO_STORE = {"Cache-Control": "no-store"}

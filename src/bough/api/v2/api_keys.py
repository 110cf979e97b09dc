"""Personal API keys: create, list, revoke. Only the response to the creation contains the token."""

from datetime import datetime
from typing import Annotated, Self

from fastapi import APIRouter, Path, Response
from pydantic import Field, RootModel

from bough.api.dependencies import ContextDep, IdempotentRoute, PrincipalDep, ServicesDep
from bough.api.schemas import INT64_MAX, Body, View, to_response
from bough.control.people.keys import create_personal_key, revoke_personal_key
from bough.control.platform.key_usage import KeyUsage
from bough.domain.api_key import ApiKey
from bough.domain.user import User

router = APIRouter(tags=["API Key"], route_class=IdempotentRoute)

KeyIdPath = Annotated[int, Path(le=INT64_MAX, ge=-INT64_MAX, alias="key_id")]


class ApiKeyCreate(Body):
    key_name: Annotated[str, Field(max_length=64)]


class ApiKeyCreated(View):
    id: int
    key: str
    name: str
    created_at: datetime
    created_by: str

    @classmethod
    def of(cls, key: ApiKey, token: str) -> Self:
        return cls(id=key.id, key=token, name=key.name, created_at=key.created_at, created_by=key.user_id)


class ApiKeyCreator(View):
    id: str
    name: str
    image: str


class ApiKeyView(View):
    id: int
    name: str
    created_at: datetime
    created_by: ApiKeyCreator
    last_used_at: datetime | None
    last_used_from_addr: str

    @classmethod
    def of(cls, key: ApiKey, creator: User | None, usage: KeyUsage) -> Self:
        at, address = last_use(key, usage)
        return cls(
            id=key.id,
            name=key.name,
            created_at=key.created_at,
            created_by=ApiKeyCreator(id=key.user_id, name=creator.name if creator else "", image=""),
            last_used_at=at,
            last_used_from_addr=address,
        )


class ApiKeyList(RootModel[list[ApiKeyView]]):
    """A bare array, as clients of this API expect."""


class ApiKeyRevoked(View):
    id: int
    name: str
    created_at: datetime
    created_by: str
    last_used_at: datetime | None
    last_used_from_addr: str
    revoked: bool

    @classmethod
    def of(cls, key: ApiKey, usage: KeyUsage) -> Self:
        at, address = last_use(key, usage)
        return cls(
            id=key.id,
            name=key.name,
            created_at=key.created_at,
            created_by=key.user_id,
            last_used_at=at,
            last_used_from_addr=address,
            revoked=True,
        )


def last_use(key: ApiKey, usage: KeyUsage) -> tuple[datetime | None, str]:
    return usage.last_use(key.id) or (key.last_used_at, key.last_used_from)


@router.get("/api_keys", response_model=ApiKeyList)
async def list_api_keys(caller: PrincipalDep, services: ServicesDep) -> Response:
    """List the caller's personal keys, without their tokens."""
    caller.check_is_person()
    async with services.store.read() as rows:
        keys = await rows.api_keys.list_personal(caller.user_id)
        creator = await rows.users.get(caller.user_id)
    keys_view = ApiKeyList([ApiKeyView.of(key, creator, services.key_usage) for key in keys])
    return Response(keys_view.model_dump_json(exclude_none=True), media_type="application/json")


@router.post("/api_keys", response_model=ApiKeyCreated)
async def create_api_key(body: ApiKeyCreate, context: ContextDep) -> Response:
    """Create a personal key. Store the `key` of the response, because it cannot be shown again."""
    return to_response(ApiKeyCreated.of(*await create_personal_key(context, body.key_name)))


@router.delete("/api_keys/{key_id}", response_model=ApiKeyRevoked)
async def revoke_api_key(key_id: KeyIdPath, context: ContextDep, services: ServicesDep) -> Response:
    """Revoke a personal key. It stops working immediately."""
    return to_response(ApiKeyRevoked.of(await revoke_personal_key(context, key_id), services.key_usage))

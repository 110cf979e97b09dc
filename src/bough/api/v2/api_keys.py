"""Personal API keys: create, list, revoke. The token is in the answer that made it and nowhere else."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import Field, RootModel

from bough.api.given import DeskGiven, OnceRoute, PartsGiven, PrincipalGiven
from bough.api.shapes import INT64, Body, View, show
from bough.control.key_use import KeyUse
from bough.control.keys import PersonalKeys
from bough.domain.api_key import ApiKey
from bough.domain.user import User

router = APIRouter(tags=["API Key"], route_class=OnceRoute)


class ApiKeyCreate(Body):
    key_name: Annotated[str, Field(max_length=64)]


class ApiKeyCreated(View):
    id: int
    key: str
    name: str
    created_at: datetime
    created_by: str


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
    def of(cls, key: ApiKey, creator: User | None, use: KeyUse) -> "ApiKeyView":
        at, address = use.last(key.id) or (key.last_used_at, key.last_used_from)
        return cls(
            id=key.id,
            name=key.name,
            created_at=key.created_at,
            created_by=ApiKeyCreator(id=key.user_id, name=creator.name if creator else "", image=""),
            last_used_at=at,
            last_used_from_addr=address,
        )


class ApiKeyList(RootModel[list[ApiKeyView]]):
    """A bare array: clients of this API expect one here."""


class ApiKeyRevoked(View):
    id: int
    name: str
    created_at: datetime
    created_by: str
    last_used_at: datetime | None
    last_used_from_addr: str
    revoked: bool


@router.get("/api_keys", response_model=ApiKeyList)
async def list_api_keys(caller: PrincipalGiven, given: PartsGiven) -> Response:
    """The caller's personal keys, without their tokens."""
    caller.check_is_person()
    async with given.store.read() as rows:
        keys = await rows.api_keys.personal(caller.user_id)
        creator = await rows.users.get(caller.user_id)
    shown = ApiKeyList([ApiKeyView.of(key, creator, given.key_use) for key in keys])
    return Response(shown.model_dump_json(exclude_none=True), media_type="application/json")


@router.post("/api_keys", response_model=ApiKeyCreated)
async def create_api_key(body: ApiKeyCreate, desk: DeskGiven, given: PartsGiven) -> Response:
    """A new personal key. Keep the `key` of the answer: it cannot be shown again."""
    key, token = await PersonalKeys(desk, given.keys).create(body.key_name)
    return show(ApiKeyCreated(id=key.id, key=token, name=key.name, created_at=key.created_at, created_by=key.user_id))


@router.delete("/api_keys/{key_id}", response_model=ApiKeyRevoked)
async def revoke_api_key(
    key_id: Annotated[int, Path(le=INT64, ge=-INT64)], desk: DeskGiven, given: PartsGiven
) -> Response:
    """Revoke a personal key: it stops working at once."""
    key = await PersonalKeys(desk, given.keys).revoke(key_id)
    at, address = given.key_use.last(key.id) or (key.last_used_at, key.last_used_from)
    return show(
        ApiKeyRevoked(
            id=key.id,
            name=key.name,
            created_at=key.created_at,
            created_by=key.user_id,
            last_used_at=at,
            last_used_from_addr=address,
            revoked=True,
        )
    )

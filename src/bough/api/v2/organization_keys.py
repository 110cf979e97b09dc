"""API keys of an organization, for all of its projects or for one: create, list, revoke."""

from typing import Annotated, Self

from fastapi import APIRouter, Response
from pydantic import Field, RootModel

from bough.api.dependencies import ContextDep, IdempotentRoute, KeysWritableOrganization, PrincipalDep, ServicesDep
from bough.api.schemas import IdText, to_response
from bough.api.v2.api_keys import ApiKeyCreate, ApiKeyCreated, ApiKeyRevoked, ApiKeyView, KeyIdPath
from bough.control.people.keys import can_see_key, create_organization_key, revoke_organization_key
from bough.control.platform.key_usage import KeyUsage
from bough.domain.api_key import ApiKey
from bough.domain.user import User
from bough.ids import ProjectId

router = APIRouter(tags=["Organizations"], route_class=IdempotentRoute)

COLLECTION_PATH = "/organizations/{org_id}/api_keys"


class OrgApiKeyCreate(ApiKeyCreate):
    project_id: Annotated[IdText | None, Field(description="The only project that the key gives access to.")] = None


class OrgApiKeyCreated(ApiKeyCreated):
    project_id: str | None = None

    @classmethod
    def of(cls, key: ApiKey, token: str) -> Self:
        return super().of(key, token).model_copy(update={"project_id": key.project_id})


class OrgApiKeyView(ApiKeyView):
    project_id: str | None = None

    @classmethod
    def of(cls, key: ApiKey, creator: User | None, usage: KeyUsage) -> Self:
        return super().of(key, creator, usage).model_copy(update={"project_id": key.project_id})


class OrgApiKeyList(RootModel[list[OrgApiKeyView]]):
    """A bare array, as clients of this API expect."""


class OrgApiKeyRevoked(ApiKeyRevoked):
    project_id: str | None = None

    @classmethod
    def of(cls, key: ApiKey, usage: KeyUsage) -> Self:
        return super().of(key, usage).model_copy(update={"project_id": key.project_id})


@router.get(COLLECTION_PATH, response_model=OrgApiKeyList)
async def list_org_api_keys(
    organization: KeysWritableOrganization, caller: PrincipalDep, services: ServicesDep
) -> Response:
    """List the organization's keys without their tokens. Admins see all keys, other members only those that they
    created.
    """
    async with services.store.read() as rows:
        all_keys = await rows.api_keys.list_in_organization(organization.id)
        keys = [key for key in all_keys if can_see_key(key, caller, organization.id)]
        creators = await rows.users.get_many({key.user_id for key in keys})
    keys_view = OrgApiKeyList([OrgApiKeyView.of(key, creators.get(key.user_id), services.key_usage) for key in keys])
    return Response(keys_view.model_dump_json(exclude_none=True), media_type="application/json")


@router.post(COLLECTION_PATH, response_model=OrgApiKeyCreated)
async def create_org_api_key(
    organization: KeysWritableOrganization, body: OrgApiKeyCreate, context: ContextDep
) -> Response:
    """Create a key for all projects of the organization, or with `project_id` for one. Store the `key` of the response,
    because it cannot be shown again.
    """
    project_id = None if body.project_id is None else ProjectId(body.project_id)
    return to_response(
        OrgApiKeyCreated.of(*await create_organization_key(context, organization, body.key_name, project_id))
    )


@router.delete(f"{COLLECTION_PATH}/{{key_id}}", response_model=OrgApiKeyRevoked)
async def revoke_org_api_key(
    organization: KeysWritableOrganization, key_id: KeyIdPath, context: ContextDep, services: ServicesDep
) -> Response:
    """Revoke a key of the organization. It stops working immediately."""
    return to_response(
        OrgApiKeyRevoked.of(await revoke_organization_key(context, organization, key_id), services.key_usage)
    )

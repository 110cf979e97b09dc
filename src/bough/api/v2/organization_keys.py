"""Keys of an organization, for all of its projects or for one: create, list, revoke."""

from typing import Annotated, Self

from fastapi import APIRouter, Response
from pydantic import Field, RootModel

from bough.api.given import DeskGiven, KeyedOrganization, OnceRoute, PartsGiven, PrincipalGiven
from bough.api.shapes import IdText, show
from bough.api.v2.api_keys import ApiKeyCreate, ApiKeyCreated, ApiKeyRevoked, ApiKeyView, KeyNumber
from bough.control.key_use import KeyUse
from bough.control.organization_keys import OrganizationKeys, is_shown
from bough.domain.api_key import ApiKey
from bough.domain.user import User
from bough.ids import ProjectId

router = APIRouter(tags=["Organizations"], route_class=OnceRoute)

PLACE = "/organizations/{org_id}/api_keys"


class OrgApiKeyCreate(ApiKeyCreate):
    project_id: Annotated[IdText | None, Field(description="the only project that the key will reach")] = None


class OrgApiKeyCreated(ApiKeyCreated):
    project_id: str | None = None

    @classmethod
    def of(cls, key: ApiKey, token: str) -> Self:
        return super().of(key, token).model_copy(update={"project_id": key.project_id})


class OrgApiKeyView(ApiKeyView):
    project_id: str | None = None

    @classmethod
    def of(cls, key: ApiKey, creator: User | None, use: KeyUse) -> Self:
        return super().of(key, creator, use).model_copy(update={"project_id": key.project_id})


class OrgApiKeyList(RootModel[list[OrgApiKeyView]]):
    """A bare array: clients of this API expect one here."""


class OrgApiKeyRevoked(ApiKeyRevoked):
    project_id: str | None = None

    @classmethod
    def of(cls, key: ApiKey, use: KeyUse) -> Self:
        return super().of(key, use).model_copy(update={"project_id": key.project_id})


@router.get(PLACE, response_model=OrgApiKeyList)
async def list_org_api_keys(organization: KeyedOrganization, caller: PrincipalGiven, given: PartsGiven) -> Response:
    """The organization's keys without their tokens: all for its admins, for others those that they made."""
    async with given.store.read() as rows:
        found = await rows.api_keys.of_organization(organization.id)
        keys = [key for key in found if is_shown(key, caller, organization.id)]
        creators = await rows.users.named({key.user_id for key in keys})
    shown = OrgApiKeyList([OrgApiKeyView.of(key, creators.get(key.user_id), given.key_use) for key in keys])
    return Response(shown.model_dump_json(exclude_none=True), media_type="application/json")


@router.post(PLACE, response_model=OrgApiKeyCreated)
async def create_org_api_key(organization: KeyedOrganization, body: OrgApiKeyCreate, desk: DeskGiven) -> Response:
    """A key for all projects of the organization, or with `project_id` for one. Keep the `key` of the answer: it
    cannot be shown again.
    """
    project_id = None if body.project_id is None else ProjectId(body.project_id)
    return show(OrgApiKeyCreated.of(*await OrganizationKeys(desk, organization).create(body.key_name, project_id)))


@router.delete(f"{PLACE}/{{key_id}}", response_model=OrgApiKeyRevoked)
async def revoke_org_api_key(
    organization: KeyedOrganization, key_id: KeyNumber, desk: DeskGiven, given: PartsGiven
) -> Response:
    """Revoke a key of the organization: it stops working at once."""
    return show(OrgApiKeyRevoked.of(await OrganizationKeys(desk, organization).revoke(key_id), given.key_use))

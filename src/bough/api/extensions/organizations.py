"""Organizations for teams: create, rename."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from bough.api.dependencies import ContextDep, IdempotentRoute, ManageableOrganization
from bough.api.schemas import Body, to_response
from bough.api.v2.organizations import OrganizationView
from bough.control.people import organizations

router = APIRouter(tags=["Bough"], route_class=IdempotentRoute)


class OrganizationBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=64)]


@router.post("/bough/organizations", response_model=OrganizationView, status_code=201)
async def create_organization(body: OrganizationBody, context: ContextDep) -> Response:
    """Create an organization on the caller's plan, with the caller as its first admin."""
    return to_response(OrganizationView.of(await organizations.create_organization(context, body.name)), 201)


@router.patch("/bough/organizations/{org_id}", response_model=OrganizationView)
async def update_organization(
    organization: ManageableOrganization, body: OrganizationBody, context: ContextDep
) -> Response:
    """Rename an organization."""
    return to_response(OrganizationView.of(await organizations.rename_organization(context, organization, body.name)))

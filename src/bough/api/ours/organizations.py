"""Organizations for teams: make one, rename it."""

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from bough.api.given import DeskGiven, ManagedOrganization, OnceRoute
from bough.api.shapes import Body, show
from bough.api.v2.organizations import OrganizationView
from bough.control.organizations import Organizations

router = APIRouter(tags=["Bough"], route_class=OnceRoute)


class OrganizationBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=64)]


@router.post("/bough/organizations", response_model=OrganizationView, status_code=201)
async def create_organization(body: OrganizationBody, desk: DeskGiven) -> Response:
    """An organization on the caller's plan, with the caller as its first admin."""
    return show(OrganizationView.of(await Organizations(desk).create(body.name)), 201)


@router.patch("/bough/organizations/{org_id}", response_model=OrganizationView)
async def update_organization(organization: ManagedOrganization, body: OrganizationBody, desk: DeskGiven) -> Response:
    """Rename an organization."""
    return show(OrganizationView.of(await Organizations(desk).rename(organization, body.name)))

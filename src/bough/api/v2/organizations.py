"""Organizations: get. Creating and renaming them is in `api/extensions`."""

from datetime import datetime

from fastapi import APIRouter, Response

from bough.api.dependencies import IdempotentRoute, ReadableOrganization
from bough.api.schemas import View, to_response
from bough.domain.organization import Organization

router = APIRouter(tags=["Organizations"], route_class=IdempotentRoute)


class OrganizationView(View):
    id: str
    name: str
    handle: str
    plan: str
    created_at: datetime
    managed_by: str
    updated_at: datetime

    @classmethod
    def of(cls, organization: Organization) -> "OrganizationView":
        return cls(
            id=organization.id,
            name=organization.name,
            handle=organization.handle,
            plan=organization.plan,
            created_at=organization.created_at,
            managed_by="bough",
            updated_at=organization.updated_at,
        )


@router.get("/organizations/{org_id}", response_model=OrganizationView)
async def get_organization(organization: ReadableOrganization) -> Response:
    """Get an organization."""
    return to_response(OrganizationView.of(organization))

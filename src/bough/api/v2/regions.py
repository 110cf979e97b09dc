"""Regions, which are configured in the settings of the installation."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from bough.api.dependencies import PrincipalDep, ServicesDep
from bough.api.schemas import IdText, View, to_response
from bough.domain.rights import OrgRight
from bough.ids import OrganizationId

router = APIRouter(tags=["Region"])


class RegionView(View):
    region_id: str
    name: str
    default: bool
    geo_lat: str
    geo_long: str


class RegionsResponse(View):
    regions: list[RegionView]


@router.get("/regions", response_model=RegionsResponse)
async def get_active_regions(
    caller: PrincipalDep, services: ServicesDep, org_id: Annotated[IdText | None, Query()] = None
) -> Response:
    """List the regions in which a project can be created."""
    if org_id is not None:
        caller.organization(OrganizationId(org_id), right=OrgRight.READ)
    views = [
        RegionView(
            region_id=region.id,
            name=region.name,
            default=position == 0,
            geo_lat=region.latitude,
            geo_long=region.longitude,
        )
        for position, region in enumerate(services.settings.regions)
    ]
    return to_response(RegionsResponse(regions=views))

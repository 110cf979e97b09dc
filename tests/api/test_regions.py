"""Regions, which are configured in the settings."""

from support.api_app import ApiApp
from support.api_client import Caller

ELSEWHERE = [
    {"id": "home-attic", "name": "Under the roof", "latitude": "52.1", "longitude": "4.3"},
    {"id": "home-cellar", "name": "Under the floor"},
]


async def test_the_regions_of_the_installation(caller: Caller) -> None:
    response = (await caller.client.get("/regions")).json()
    assert [region["region_id"] for region in response["regions"]] == ["aws-us-east-2"]
    assert response["regions"][0]["default"] is True


async def test_an_operator_may_have_others(api_app: ApiApp, caller: Caller) -> None:
    async with caller.client_for(ApiApp(api_app.platform, regions=ELSEWHERE)) as client:
        attic, cellar = (await client.get("/regions")).json()["regions"]
        assert (attic["region_id"], attic["default"], attic["geo_lat"]) == ("home-attic", True, "52.1")
        assert (cellar["region_id"], cellar["default"], cellar["geo_long"]) == ("home-cellar", False, "0")
        created = (await client.post("/projects", json={"project": {"region_id": "home-cellar"}})).json()
        assert (created["project"]["region_id"], created["project"]["platform_id"]) == ("home-cellar", "home")
        assert created["endpoints"][0]["host"].split(".", 1)[1] == "cellar.home.localhost"
        default = (await client.post("/projects", json={"project": {}})).json()
        assert default["project"]["region_id"] == "home-attic"


async def test_for_an_organization_of_ones_own_only(caller: Caller, stranger: Caller) -> None:
    assert (await caller.client.get("/regions", params={"org_id": caller.organization.id})).status_code == 200
    assert (await caller.client.get("/regions", params={"org_id": stranger.organization.id})).status_code == 404
    assert (await caller.client.get("/regions", params={"org_id": "Not An Id"})).status_code == 400

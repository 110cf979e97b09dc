"""Ids, hosts and URIs have the formats that clients parse."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from support.api_app import ApiApp
from support.api_client import Caller, Json, create_caller

ID = re.compile(r"[a-z0-9-]{1,60}")
PROJECT = re.compile(r"[a-z]+-[a-z]+-\d{8}")
BRANCH = re.compile(r"br-[a-z]+-[a-z]+-[a-z0-9]{8}")
ENDPOINT = re.compile(r"ep-[a-z]+-[a-z]+-[a-z0-9]{8}")
ORGANIZATION = re.compile(r"org-[a-z0-9-]+")
OPERATION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

PORTS = [(None, ""), (5432, ""), (6543, ":6543")]


async def _made_at(app: ApiApp, port: int | None, **fields: object) -> Json:
    caller = await create_caller(ApiApp(app.platform, gateway_port=port, domain="db.example"))
    return await caller.create_project(**fields)


async def test_ids_have_their_forms(caller: Caller) -> None:
    for _ in range(10):
        created = await caller.create_project()
        assert PROJECT.fullmatch(created["project"]["id"])
        assert BRANCH.fullmatch(created["branch"]["id"])
        assert ENDPOINT.fullmatch(created["endpoints"][0]["id"])
        assert ORGANIZATION.fullmatch(created["project"]["org_id"])
        assert all(OPERATION.fullmatch(operation["id"]) for operation in created["operations"])
        for thing in (created["project"], created["branch"], created["endpoints"][0]):
            assert ID.fullmatch(thing["id"])


async def test_what_nobody_named_has_the_names_that_clients_expect(caller: Caller) -> None:
    created = await caller.create_project()
    assert created["branch"]["name"] == "main"
    assert created["databases"][0]["name"] == "neondb"
    assert created["roles"][0]["name"] == "neondb_owner"


@pytest.mark.parametrize(("port", "suffix"), PORTS)
async def test_hosts_tell_endpoint_region_cloud_domain_and_an_unusual_port(
    api_app: ApiApp, port: int | None, suffix: str
) -> None:
    created = await _made_at(api_app, port)
    endpoint, parameters = created["endpoints"][0], created["connection_uris"][0]["connection_parameters"]
    proxy = f"us-east-2.aws.db.example{suffix}"
    assert endpoint["host"] == parameters["host"] == f"{endpoint['id']}.{proxy}"
    assert parameters["pooler_host"] == f"{endpoint['id']}-pooler.{proxy}"
    assert endpoint["proxy_host"] == created["project"]["proxy_host"] == proxy


@pytest.mark.parametrize(("port", "suffix"), PORTS)
async def test_a_uri_is_made_of_the_fields_beside_it(api_app: ApiApp, port: int | None, suffix: str) -> None:
    created = await _made_at(api_app, port)
    details = created["connection_uris"][0]
    parameters, uri = details["connection_parameters"], urlsplit(details["connection_uri"])
    assert (uri.scheme, uri.username, uri.password) == ("postgresql", parameters["role"], parameters["password"])
    assert uri.netloc.split("@")[1] == parameters["host"]
    assert uri.port == (port if suffix else None)
    assert uri.path == f"/{parameters['database']}"
    assert parse_qs(uri.query) == {"sslmode": ["require"], "channel_binding": ["require"]}


@pytest.mark.parametrize(("port", "suffix"), PORTS)
@pytest.mark.parametrize("role", ["neondb_owner", "first.last", "a@b.c"])
async def test_cutting_at_the_first_dot_makes_the_pooled_uri(
    api_app: ApiApp, port: int | None, suffix: str, role: str
) -> None:
    """Clients insert `-pooler` before the first dot of the whole string."""
    created = await _made_at(api_app, port, branch={"role_name": role, "database_name": "with.dot"})
    details = created["connection_uris"][0]
    before, after = details["connection_uri"].split(".", 1)
    pooled = f"{before}-pooler.{after}"
    assert pooled.split("@")[1].split("/", maxsplit=1)[0] == details["connection_parameters"]["pooler_host"]


async def test_passwords_need_no_quoting(caller: Caller) -> None:
    for _ in range(10):
        password = (await caller.create_project())["roles"][0]["password"]
        assert re.fullmatch(r"[A-Za-z0-9_]{16,}", password)

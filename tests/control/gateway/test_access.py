"""Access of roles: known roles get their verifier, all others one that no password matches."""

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from bough import clock
from bough.control.gateway.access import AccessResolver
from bough.domain.gateway_protocol import Access
from bough.domain.pooler import PoolSettings
from bough.domain.private_networks import BlockedNetworks
from bough.domain.role import Role
from bough.ids import EndpointId
from bough.postgres.scram import scram_verifier
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS

NEW = PoolSettings(servers=100, servers_per_pool=100)  # of an endpoint without settings of its own


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    async with open_platform(store_url=url) as opened:
        yield opened


async def access(platform: Platform, created: dict[str, Any], role: str = "neondb_owner") -> Access:
    return await platform.inner.gateway_api.gateway_access.resolve(EndpointId(created["endpoints"][0]["id"]), role)


async def change_role(platform: Platform, created: dict[str, Any], **changes: Any) -> None:
    async with platform.store.transaction() as rows:
        (role,) = await rows.roles.list_in_branch(created["branch"]["id"])
        await rows.roles.save(replace(role, **changes))


def parse_verifier(verifier: str) -> tuple[str, int, bytes, bytes, bytes]:
    scheme, numbers, keys = verifier.split("$")
    iterations, salt = numbers.split(":")
    stored, server = keys.split(":")
    return scheme, int(iterations), base64.b64decode(salt), base64.b64decode(stored), base64.b64decode(server)


async def test_a_role_of_a_sleeping_endpoint_is_known_by_its_verifier(platform: Platform) -> None:
    created = await platform.create_project()
    found = await access(platform, created)
    async with platform.store.read() as rows:
        (role,) = await rows.roles.list_in_branch(created["branch"]["id"])
    assert found == Access(
        verifier=role.verifier or "",
        is_known=True,
        valid_until=None,
        allowed_networks=None,
        rejection=None,
        pool_settings=NEW,
    )


async def test_what_is_not_there_looks_like_what_is(platform: Platform) -> None:
    created = await platform.create_project()
    known = parse_verifier((await access(platform, created)).verifier)
    endpoint = EndpointId(created["endpoints"][0]["id"])
    resolver = platform.inner.gateway_api.gateway_access
    for where, role in ((endpoint, "nobody"), (EndpointId.new(), "neondb_owner"), (endpoint, "bough_admin")):
        first, second = [await resolver.resolve(where, role) for _ in range(2)]
        assert not first.is_known
        mock = parse_verifier(first.verifier)
        assert [type(each) for each in mock] == [type(each) for each in known]
        assert (mock[:2], *map(len, mock[2:])) == (known[:2], *map(len, known[2:]))
        assert parse_verifier(second.verifier)[2] == mock[2], "the salt of one who asks again is the same"
        assert parse_verifier(second.verifier)[3] != mock[3]
    salts = {parse_verifier((await resolver.resolve(endpoint, role)).verifier)[2] for role in ("a", "b", "c")}
    assert len(salts) == 3
    allowances = platform.services.allowances
    other = await AccessResolver(platform.store, b"another secret", allowances).resolve(endpoint, "a")
    assert parse_verifier(other.verifier)[2] not in salts


async def test_deleted_projects_are_not_known(platform: Platform) -> None:
    created = await platform.create_ready_project()
    assert (await platform.client.delete(f"{API}/projects/{created['project']['id']}")).status_code == 200
    assert not (await access(platform, created)).is_known


async def test_a_role_without_a_password_cannot_enter(platform: Platform) -> None:
    created = await platform.create_project()
    await change_role(platform, created, verifier=None)
    found = await access(platform, created)
    assert (found.is_known, found.rejection) == (False, None)


async def test_md5_is_refused_with_what_to_do(platform: Platform) -> None:
    created = await platform.create_project()
    await change_role(platform, created, verifier="md5" + "0" * 32)
    found = await access(platform, created)
    assert not found.is_known
    assert "md5" in (found.rejection or "")
    assert "ALTER ROLE" in (found.rejection or "")
    assert "md50000" not in found.verifier


async def test_when_a_password_ends_is_told(platform: Platform) -> None:
    created = await platform.create_project()
    until = clock.now().replace(microsecond=0)
    await change_role(platform, created, valid_until=until)
    assert (await access(platform, created)).valid_until == until


async def test_networks_come_from_the_project_whoever_asks(platform: Platform) -> None:
    created = await platform.create_project(settings={"allowed_ips": {"ips": ["10.0.0.0/8", "192.0.2.1-192.0.2.2"]}})
    expected = ("10.0.0.0/8", "192.0.2.1/32", "192.0.2.2/32")
    assert (await access(platform, created)).allowed_networks == expected
    assert (await access(platform, created, "nobody")).allowed_networks == expected


async def test_networks_of_protected_branches_only(platform: Platform) -> None:
    rules = {"ips": ["10.0.0.1"], "protected_branches_only": True}
    created = await platform.create_project(settings={"allowed_ips": rules})
    assert (await access(platform, created)).allowed_networks is None
    async with platform.store.transaction() as rows:
        (branch,) = await rows.branches.list_in_project(created["project"]["id"])
        await rows.branches.save(replace(branch, is_protected=True))
    assert (await access(platform, created)).allowed_networks == ("10.0.0.1/32",)


async def test_blocked_networks_come_from_the_project_whoever_asks(platform: Platform) -> None:
    created = await platform.create_project(settings={"block_public_connections": True})
    for role in ("neondb_owner", "nobody"):
        assert (await access(platform, created, role)).blocked_networks == BlockedNetworks(public=True)
    assert (await access(platform, await platform.create_project())).blocked_networks == BlockedNetworks()


@pytest.mark.parametrize(
    "change", [{"block_public_connections": True}, {"block_vpc_connections": True}, {"allowed_ips": {"ips": ["::1"]}}]
)
async def test_a_changed_rule_is_announced_to_gateways(platform: Platform, change: dict[str, Any]) -> None:
    created = await platform.create_ready_project()
    activity = platform.services.activity
    await activity.report("worker", 1, [])
    path = f"{API}/projects/{created['project']['id']}"
    assert (await platform.client.patch(path, json={"project": {"settings": change}})).status_code == 200
    assert await activity.report("worker", 2, []) == {created["endpoints"][0]["id"]}
    assert (await platform.client.patch(path, json={"project": {"settings": change}})).status_code == 200
    assert await activity.report("worker", 3, []) == frozenset()


async def test_two_roles_of_a_branch_are_told_apart(platform: Platform) -> None:
    created = await platform.create_project()
    second = scram_verifier("second")
    now = clock.now()
    role = Role(
        branch_id=created["branch"]["id"],
        name='o"dd \\ name',
        verifier=second,
        sealed_password=None,
        is_protected=False,
        created_at=now,
        updated_at=now,
    )
    async with platform.store.transaction() as rows:
        await rows.roles.add(role)
    assert (await access(platform, created, role.name)).verifier == second
    assert (await access(platform, created)).verifier != second


async def test_how_it_pools_follows_the_endpoint_whoever_asks(platform: Platform) -> None:
    created = await platform.create_project(autoscaling_limit_max_cu=2)
    assert (await access(platform, created)).pool_settings == PoolSettings(servers=810, servers_per_pool=810)
    await platform.run_operations()
    path = f"{API}/projects/{created['project']['id']}/endpoints/{created['endpoints'][0]['id']}"
    settings = {"default_pool_size": "9000", "server_idle_timeout": "0", "max_prepared_statements": "5"}
    change = {"endpoint": {"pooler_enabled": True, "settings": {"pgbouncer_settings": settings}}}
    assert (await platform.client.patch(path, json=change)).status_code == 200
    expected = PoolSettings(servers=810, servers_per_pool=810, idle_seconds=0.0, statements=5, direct_host_too=True)
    for role in ("neondb_owner", "nobody"):
        assert (await access(platform, created, role)).pool_settings == expected
    assert (
        await platform.inner.gateway_api.gateway_access.resolve(EndpointId.new(), "neondb_owner")
    ).pool_settings == NEW


async def test_settings_that_cannot_be_read_shut_nobody_out(platform: Platform) -> None:
    created = await platform.create_project()
    async with platform.store.transaction() as rows:
        endpoint = await rows.endpoints.get(EndpointId(created["endpoints"][0]["id"]))
        assert endpoint is not None
        old = {"pool_mode": "session", "default_pool_size": "many", "no such": "thing"}
        await rows.endpoints.save(replace(endpoint, settings={"pgbouncer_settings": old}))
    assert (await access(platform, created)).pool_settings == NEW

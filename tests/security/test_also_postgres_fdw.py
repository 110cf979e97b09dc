"""`postgres_fdw` works for tenants only with a password of the remote project and through the gateway."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from bough.postgres import ADMIN_ROLE
from support import platform_gateway
from support.branches import query
from support.platform_gateway import PlatformGateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWNER, DATABASE = "neondb_owner", "neondb"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[PlatformGateway]:
    async with platform_gateway.open_platform_gateway() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote(gateway: PlatformGateway) -> dict[str, Any]:
    created = await gateway.platform.create_ready_project()
    await query(gateway.platform, created, "create table facts as select generate_series(1, 10) as n")
    return created


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local(gateway: PlatformGateway) -> dict[str, Any]:
    created = await gateway.platform.create_ready_project()
    await query(gateway.platform, created, "create extension postgres_fdw")
    return created


def server_options(gateway: PlatformGateway, remote: dict[str, Any]) -> str:
    parameters = remote["connection_uris"][0]["connection_parameters"]
    return (
        f"host '{parameters['host']}', hostaddr '127.0.0.1', port '{gateway.gateway.port}', "
        f"dbname '{parameters['database']}', sslmode 'require'"
    )


def mapping_options(remote: dict[str, Any]) -> str:
    parameters = remote["connection_uris"][0]["connection_parameters"]
    return f"user '{parameters['role']}', password '{parameters['password']}'"


async def find_socket_folder(gateway: PlatformGateway, created: dict[str, Any]) -> str:
    address = await gateway.platform.engine.find_address(created["endpoints"][0]["id"])
    assert address is not None
    return address.host


async def test_a_tenant_reads_and_writes_what_is_in_another_project(
    gateway: PlatformGateway, local: dict[str, Any], remote: dict[str, Any]
) -> None:
    async with gateway.platform.connect(local["endpoints"][0]["id"], OWNER, DATABASE) as db:
        await db.execute(
            f"create server far foreign data wrapper postgres_fdw options ({server_options(gateway, remote)})"
        )
        await db.execute(f"create user mapping for current_user server far options ({mapping_options(remote)})")
        await db.execute("create schema far; import foreign schema public from server far into far")
        assert await db.fetchval("select sum(n) from far.facts") == 55
        await db.execute("insert into far.facts values (100)")
        assert await query(gateway.platform, remote, "select max(n) from facts") == 100
        await db.execute("truncate far.facts")
        assert await query(gateway.platform, remote, "select count(*) from facts") == 0


async def test_whoever_created_the_extension_lets_others_use_it(
    gateway: PlatformGateway, local: dict[str, Any]
) -> None:
    async with gateway.platform.connect(local["endpoints"][0]["id"], OWNER, DATABASE) as db:
        await db.execute("create role app; grant app to current_user")
        await db.execute("set role app")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute("create server theirs foreign data wrapper postgres_fdw")
        await db.execute("reset role; grant usage on foreign data wrapper postgres_fdw to app; set role app")
        await db.execute("create server theirs foreign data wrapper postgres_fdw")
        await db.execute("drop server theirs; reset role")


async def test_nobody_goes_without_a_password(
    gateway: PlatformGateway, local: dict[str, Any], remote: dict[str, Any]
) -> None:
    parameters = remote["connection_uris"][0]["connection_parameters"]
    async with gateway.platform.connect(local["endpoints"][0]["id"], OWNER, DATABASE) as db:
        await db.execute(
            f"create server bare foreign data wrapper postgres_fdw options ({server_options(gateway, remote)})"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="password_required=false is superuser-only"):
            await db.execute(
                f"create user mapping for current_user server bare options (user '{parameters['role']}', "
                "password_required 'false')"
            )
        await db.execute(f"create user mapping for current_user server bare options (user '{parameters['role']}')")
        await db.execute("create foreign table bare_facts (n int) server bare options (table_name 'facts')")
        with pytest.raises(asyncpg.PostgresError, match="password"):
            await db.fetchval("select count(*) from bare_facts")


@pytest.mark.parametrize("whose", ["own", "other"])
@pytest.mark.parametrize("user", [OWNER, ADMIN_ROLE])
async def test_the_sockets_of_computes_are_out_of_reach(
    gateway: PlatformGateway, local: dict[str, Any], remote: dict[str, Any], whose: str, user: str
) -> None:
    """As root the folder mode prevents access. Otherwise Postgres requires a password, and a socket requests none."""
    folder = await find_socket_folder(gateway, local if whose == "own" else remote)
    async with gateway.platform.connect(local["endpoints"][0]["id"], OWNER, DATABASE) as db:
        await db.execute(
            f"create server near foreign data wrapper postgres_fdw options (host '{folder}', dbname '{DATABASE}');"
            f"create user mapping for current_user server near options (user '{user}', password 'x');"
            "create foreign table near_facts (n int) server near options (table_name 'facts')"
        )
        try:
            with pytest.raises(asyncpg.PostgresError, match=r"Permission denied|password"):
                await db.fetchval("select count(*) from near_facts")
        finally:
            await db.execute("drop server near cascade")

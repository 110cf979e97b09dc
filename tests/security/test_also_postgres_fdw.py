"""`postgres_fdw` works for tenants, with a password of the other side and through its gateway, and in no other way."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

import door_world
from bough.postgres import ADMIN
from branch_world import query
from door_world import Door

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWNER, DATABASE = "neondb_owner", "neondb"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door() -> AsyncIterator[Door]:
    async with door_world.door() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remote(door: Door) -> dict[str, Any]:
    made = await door.platform.ready_project()
    await query(door.platform, made, "create table facts as select generate_series(1, 10) as n")
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(door: Door) -> dict[str, Any]:
    own = await door.platform.ready_project()
    await query(door.platform, own, "create extension postgres_fdw")
    return own


def address(door: Door, remote: dict[str, Any]) -> str:
    given = remote["connection_uris"][0]["connection_parameters"]
    return (
        f"host '{given['host']}', hostaddr '127.0.0.1', port '{door.way.port}', dbname '{given['database']}', "
        "sslmode 'require'"
    )


def login(remote: dict[str, Any]) -> str:
    given = remote["connection_uris"][0]["connection_parameters"]
    return f"user '{given['role']}', password '{given['password']}'"


async def sockets(door: Door, made: dict[str, Any]) -> str:
    found = await door.platform.engine.address(made["endpoints"][0]["id"])
    assert found is not None
    return found.host


async def test_a_tenant_reads_and_writes_what_is_in_another_project(
    door: Door, made: dict[str, Any], remote: dict[str, Any]
) -> None:
    async with door.platform.connect(made["endpoints"][0]["id"], OWNER, DATABASE) as db:
        await db.execute(f"create server far foreign data wrapper postgres_fdw options ({address(door, remote)})")
        await db.execute(f"create user mapping for current_user server far options ({login(remote)})")
        await db.execute("create schema far; import foreign schema public from server far into far")
        assert await db.fetchval("select sum(n) from far.facts") == 55
        await db.execute("insert into far.facts values (100)")
        assert await query(door.platform, remote, "select max(n) from facts") == 100
        await db.execute("truncate far.facts")
        assert await query(door.platform, remote, "select count(*) from facts") == 0


async def test_whoever_created_the_extension_lets_others_use_it(door: Door, made: dict[str, Any]) -> None:
    async with door.platform.connect(made["endpoints"][0]["id"], OWNER, DATABASE) as db:
        await db.execute("create role app; grant app to current_user")
        await db.execute("set role app")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute("create server theirs foreign data wrapper postgres_fdw")
        await db.execute("reset role; grant usage on foreign data wrapper postgres_fdw to app; set role app")
        await db.execute("create server theirs foreign data wrapper postgres_fdw")
        await db.execute("drop server theirs; reset role")


async def test_nobody_goes_without_a_password(door: Door, made: dict[str, Any], remote: dict[str, Any]) -> None:
    given = remote["connection_uris"][0]["connection_parameters"]
    async with door.platform.connect(made["endpoints"][0]["id"], OWNER, DATABASE) as db:
        await db.execute(f"create server bare foreign data wrapper postgres_fdw options ({address(door, remote)})")
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="password_required=false is superuser-only"):
            await db.execute(
                f"create user mapping for current_user server bare options (user '{given['role']}', "
                "password_required 'false')"
            )
        await db.execute(f"create user mapping for current_user server bare options (user '{given['role']}')")
        await db.execute("create foreign table bare_facts (n int) server bare options (table_name 'facts')")
        with pytest.raises(asyncpg.PostgresError, match="password"):
            await db.fetchval("select count(*) from bare_facts")


@pytest.mark.parametrize("whose", ["own", "other"])
@pytest.mark.parametrize("user", [OWNER, ADMIN])
async def test_the_sockets_of_computes_are_out_of_reach(
    door: Door, made: dict[str, Any], remote: dict[str, Any], whose: str, user: str
) -> None:
    """As root by the folder's mode; else by the password that Postgres wants and that a socket does not ask for."""
    folder = await sockets(door, made if whose == "own" else remote)
    async with door.platform.connect(made["endpoints"][0]["id"], OWNER, DATABASE) as db:
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

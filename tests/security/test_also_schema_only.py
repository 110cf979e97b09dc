"""Emptying a `schema-only` branch accesses no other server and runs no code of a tenant.

The parent has a foreign partition in another project, reached through the gateway, with a user mapping for PUBLIC that
also applies to the platform's own role.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from bough.postgres import ADMIN_ROLE
from support import platform_gateway
from support.branches import create_branch, query
from support.platform_gateway import PlatformGateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

REMOTE_SETUP = ("create table facts (n int)", "insert into facts select generate_series(1, 100)")
PARENT_SETUP = (
    "create table plain (n int primary key)",
    "create table referring (n int references plain) partition by list (n)",
    "create table referring_1 partition of referring for values in (1)",
    "create table mixed (n int) partition by range (n)",
    "create table mixed_own partition of mixed for values from (1000) to (2000)",
    "create foreign table mixed_far partition of mixed for values from (0) to (1000) server far "
    "options (table_name 'facts')",
    "create table nested (n int) partition by range (n)",
    "create table nested_below partition of nested for values from (0) to (5000) partition by range (n)",
    "create foreign table nested_far partition of nested_below for values from (0) to (1000) server far "
    "options (table_name 'facts')",
    "create table inherited (n int)",
    "create foreign table inherited_far () inherits (inherited) server far options (table_name 'facts')",
    "insert into plain values (1)",
    "insert into referring values (1)",
    "insert into mixed values (1500)",
    "insert into inherited values (7)",
)
LOCAL_TABLES = ("plain", "referring", "mixed_own", "only inherited")

# An immutable function can call a volatile one, which runs with the rights of the role that evaluates it.
TRAPS = (
    """create function rise() returns int language plpgsql as $$
       begin
           if current_user like 'bough%' then execute 'alter role neondb_owner superuser'; end if;
           return 1;
       end $$""",
    "create function trap(n int) returns int language plpgsql immutable as $$ begin return public.rise(); end $$",
    "create table by_key (n int) partition by range ((n + trap(1)))",
    "create table by_key_1 partition of by_key for values from (0) to (1000)",
    "create table indexed (n int)",
    "create index on indexed ((n + trap(2)))",
    "create index on indexed (n) where trap(3) = 1",
    "create statistics traced on (n + trap(4)), n from indexed",
    "create materialized view seen as select n, trap(5) as t from indexed",
    "create unique index on seen ((n + trap(6)))",
    "create table made (n int, m int generated always as (n + trap(7)) stored, check (trap(8) = 1))",
    "alter table made enable row level security",
    "create policy trapped on made using (trap(9) = 1)",
    "create rule trapped as on update to indexed do also select trap(10)",
    "insert into by_key values (1); insert into indexed values (1); insert into made (n) values (1)",
    "refresh materialized view seen",
    "analyze",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[PlatformGateway]:
    async with platform_gateway.open_platform_gateway() as opened:
        yield opened


async def create_foreign_server(gateway: PlatformGateway, created: dict[str, Any], remote: dict[str, Any]) -> None:
    """Creates a foreign server `far` in one project that connects to another, as a tenant can."""
    parameters = remote["connection_uris"][0]["connection_parameters"]
    async with gateway.platform.connect(created["endpoints"][0]["id"], "neondb_owner", "neondb") as db:
        await db.execute("create extension postgres_fdw")
    async with gateway.platform.connect(created["endpoints"][0]["id"], ADMIN_ROLE, "neondb") as db:
        await db.execute("grant usage on foreign data wrapper postgres_fdw to neondb_owner")
    async with gateway.platform.connect(created["endpoints"][0]["id"], "neondb_owner", "neondb") as db:
        await db.execute(
            "create server far foreign data wrapper postgres_fdw options "
            f"(host '{parameters['host']}', hostaddr '127.0.0.1', port '{gateway.gateway.port}', "
            f"dbname '{parameters['database']}', sslmode 'require', truncatable 'true')"
        )
        await db.execute(
            f"create user mapping for public server far options (user '{parameters['role']}', "
            f"password '{parameters['password']}')"
        )


async def test_rows_on_another_server_stay(gateway: PlatformGateway) -> None:
    remote, created = await gateway.platform.create_ready_project(), await gateway.platform.create_ready_project()
    for statement in REMOTE_SETUP:
        await query(gateway.platform, remote, statement)
    await create_foreign_server(gateway, created, remote)
    for statement in PARENT_SETUP:
        await query(gateway.platform, created, statement)
    assert await query(gateway.platform, created, "select count(*) from mixed") == 101, (
        "the foreign server does not work"
    )

    branch = await create_branch(gateway.platform, created, init_source="schema-only")

    assert await query(gateway.platform, remote, "select count(*) from facts") == 100
    for table in LOCAL_TABLES:
        assert await query(gateway.platform, created, f"select count(*) from {table}") == 1
        assert await query(gateway.platform, branch, f"select count(*) from {table}") == 0
    assert await query(gateway.platform, branch, "select count(*) from mixed") == 100, (
        "the foreign partition must still exist"
    )


async def test_nothing_of_the_tenants_is_evaluated_with_our_rights(gateway: PlatformGateway) -> None:
    created = await gateway.platform.create_ready_project()
    for statement in TRAPS:
        async with gateway.platform.connect(created["endpoints"][0]["id"], "neondb_owner", "neondb") as db:
            await db.execute(statement)
    branch = await create_branch(gateway.platform, created, init_source="schema-only")
    for table in ("by_key_1", "indexed", "made"):
        assert await query(gateway.platform, branch, f"select count(*) from {table}") == 0
    assert await query(gateway.platform, branch, "select count(*) from pg_roles where rolsuper") == 1, (
        "a tenant's role became a superuser"
    )

"""Row 4: the storage limit counts all that a tenant can fill, and what it can fill beside its databases is bounded.

A platform with plans so small that little has to be written; the tenant comes through the gateway, as tenants do.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from bough.config import DEFAULT_PLANS, Plan
from bough.domain.allowance import Fullness
from bough.engine.port import StorageUsage
from bough.ids import EndpointId
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE, storage
from bough.tasks import enforce_storage_limits
from bough.tasks.enforce_storage_limits import EnforceStorageLimits
from journeys.test_allowances import fullness, give, organization_on
from support import platform_gateway
from support.branches import project_path, query, send_request
from support.platform_gateway import ClientConnection, PlatformGateway

MB = 1024**2
PLANS = {**DEFAULT_PLANS, "small": Plan(storage_bytes=32 * MB), "roomy": Plan(storage_bytes=256 * MB)}
HOLD_CURSOR = "declare {} cursor with hold for select repeat('x', 1000) from generate_series(1, {})"
SLEEPS = "from pg_stat_activity where wait_event = 'PgSleep'"
WRITE = "insert into kept values (1)"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[PlatformGateway]:
    plans = {name: plan.model_dump() for name, plan in PLANS.items()}
    async with platform_gateway.open_platform_gateway(plans=plans) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def large_quota_project(gateway: PlatformGateway) -> dict[str, Any]:
    return await project_on(gateway, "roomy")


async def project_on(door: PlatformGateway, plan: str, **settings: Any) -> dict[str, Any]:
    org_id = await organization_on(door.platform, plan)
    made = await door.platform.create_ready_project(org_id=org_id, **settings)
    await query(door.platform, made, "create table kept (n int)")
    return made


async def stored(door: PlatformGateway, made: dict[str, Any]) -> StorageUsage:
    found = await door.platform.engine.measure_storage(EndpointId(made["endpoints"][0]["id"]))
    assert found is not None
    return found


async def as_superuser(
    door: PlatformGateway, made: dict[str, Any], *statements: str, database: str = MAINTENANCE_DATABASE
) -> Any:
    async with door.platform.connect(made["endpoints"][0]["id"], ADMIN_ROLE, database) as db:
        for statement in statements[:-1]:
            await db.execute(statement)
        return await db.fetchval(statements[-1])


async def hold_cursor(session: ClientConnection, rows: int, name: str = "held") -> None:
    """Its rows are in temporary files until the session ends, although no transaction is open."""
    await session.execute("begin")
    await session.execute(HOLD_CURSOR.format(name, rows))
    await session.execute("commit")


async def test_nothing_can_be_put_into_the_databases_that_come_with_postgres(
    gateway: PlatformGateway, large_quota_project: dict[str, Any]
) -> None:
    async with await gateway.connect(large_quota_project, dbname="postgres") as session:
        for statement in (
            "select lo_create(0)",
            "select lo_creat(-1)",
            "select lo_from_bytea(0, 'x')",
            "create temporary table t (n int)",
            "create table t (n int)",
            "create schema s",
            "create extension hstore",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await session.execute(statement)
    with pytest.raises(psycopg.OperationalError, match='permission denied for database "template1"'):
        await gateway.connect(large_quota_project, dbname="template1")
    async with await gateway.connect(large_quota_project) as session:
        await session.execute("create database of_template1")
        await session.execute("drop database of_template1")
        await session.execute("create temporary table t (n int)")
        await session.execute("select lo_unlink(lo_create(0))")


async def test_what_is_in_them_counts_and_a_home_of_the_last_version_is_closed(
    gateway: PlatformGateway, large_quota_project: dict[str, Any]
) -> None:
    """Its databases were open to everybody, and may hold something already."""
    opened = (
        "grant connect, temporary on database template1 to public",
        "grant temporary on database postgres to public",
        "grant execute on function lo_create(oid), lo_creat(int4), lo_from_bytea(oid, bytea) to public",
        "select 1",
    )
    await as_superuser(gateway, large_quota_project, *opened)
    fill = "select lo_from_bytea(0, string_agg(sha512(n::text::bytea), '')) from generate_series(1, 16384) n"
    before = (await stored(gateway, large_quota_project)).used_bytes
    await as_superuser(gateway, large_quota_project, *opened)
    for database in ("postgres", "template1"):
        async with await gateway.connect(large_quota_project, dbname=database) as session:
            for _ in range(4):
                await session.execute(fill)
    assert (await stored(gateway, large_quota_project)).used_bytes - before > 6 * MB
    for database in ("postgres", "template1"):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.OperationalError)):
            async with await gateway.connect(large_quota_project, dbname=database) as session:
                await session.execute(fill)
        await as_superuser(
            gateway,
            large_quota_project,
            "select lo_unlink(oid) from pg_largeobject_metadata",
            "select 1",
            database=database,
        )
        async with gateway.platform.connect(large_quota_project["endpoints"][0]["id"], ADMIN_ROLE, database) as db:
            await db.execute("vacuum full pg_largeobject")
    assert (await stored(gateway, large_quota_project)).used_bytes - before < 2 * MB


async def test_shared_catalogs_count(gateway: PlatformGateway, large_quota_project: dict[str, Any]) -> None:
    before = (await stored(gateway, large_quota_project)).used_bytes
    async with await gateway.connect(large_quota_project) as session:
        await session.execute(
            "do $$ begin execute format('comment on database neondb is %L', (select string_agg(md5(n::text), '') "
            "from generate_series(1, 100000) n)); end $$"
        )
    assert (await stored(gateway, large_quota_project)).used_bytes - before > MB


async def test_temporary_files_count_and_are_bounded_for_each_session(
    gateway: PlatformGateway, large_quota_project: dict[str, Any]
) -> None:
    """The plan allows 256 MB, so a session may have half of that; the issue's cursor took 768 MB."""
    before = (await stored(gateway, large_quota_project)).used_bytes
    async with await gateway.connect(large_quota_project) as session:
        row = await (await session.execute("show temp_file_limit")).fetchone()
        assert row == ("128MB",)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await session.execute("set temp_file_limit = -1")
        await hold_cursor(session, 30_000)
        assert (await stored(gateway, large_quota_project)).used_bytes - before > 25 * MB
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="temp_file_limit"):
            await hold_cursor(session, 200_000, "another")
    assert (await stored(gateway, large_quota_project)).used_bytes - before < 25 * MB, "they went with the session"


async def test_a_tenant_cannot_give_itself_more_temporary_files(
    gateway: PlatformGateway, large_quota_project: dict[str, Any]
) -> None:
    body = {"endpoint": {"settings": {"pg_settings": {"temp_file_limit": "-1"}}}}
    path = f"{project_path(large_quota_project)}/endpoints/{large_quota_project['endpoints'][0]['id']}"
    refusal = await send_request(gateway.platform, "PATCH", path, status=400, body=body)
    assert "follows from the plan" in refusal["message"]


async def test_a_branch_that_temporary_files_filled_comes_back_when_they_are_gone(
    gateway: PlatformGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforce_storage_limits, "IDLE_INTERVAL", 0.0)
    monkeypatch.setattr(enforce_storage_limits, "MAX_GROWTH_PER_SECOND", 1e15)  # everybody is due at every look
    made = await project_on(gateway, "small")
    async with await gateway.connect(made) as session:
        await hold_cursor(session, 34_000)
        await gateway.run_task(EnforceStorageLimits)
        assert await fullness(gateway, made) is Fullness.FULL
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await session.execute(WRITE)
        await session.execute("close held")
        await gateway.run_task(EnforceStorageLimits)
        assert await fullness(gateway, made) is Fullness.BELOW_LIMIT
        await session.execute(WRITE)
        await hold_cursor(session, 50_000)
        await gateway.run_task(EnforceStorageLimits)
        assert await fullness(gateway, made) is Fullness.OVERFULL
        with pytest.raises(psycopg.OperationalError):  # its compute was started anew, which took the files away
            await session.execute("select 1")
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.BELOW_LIMIT, "without anybody at it"
    async with await gateway.connect(made) as session:
        await session.execute(WRITE)


async def test_a_statement_that_runs_without_a_word_to_its_client_is_measured_again(
    gateway: PlatformGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforce_storage_limits, "MAX_GROWTH_PER_SECOND", 1e15)  # everybody is due at every look
    made = await project_on(gateway, "small")
    await query(gateway.platform, made, "create table much (text text)")
    async with await gateway.connect(made) as session:
        sleeping = asyncio.ensure_future(session.execute("select pg_sleep(20)"))
        await until_it_sleeps(gateway, made)
        await gateway.run_task(EnforceStorageLimits)  # hears of what the client said, and of nothing after that
        await query(gateway.platform, made, "insert into much select repeat('x', 1000) from generate_series(1, 34000)")
        await gateway.run_task(EnforceStorageLimits)
        assert await fullness(gateway, made) is Fullness.FULL
        await query(gateway.platform, made, f"select pg_terminate_backend(pid) {SLEEPS}")
        with pytest.raises(psycopg.OperationalError):
            await sleeping


async def until_it_sleeps(door: PlatformGateway, made: dict[str, Any]) -> None:
    for _ in range(1000):
        if await query(door.platform, made, f"select count(*) {SLEEPS}"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the statement did not begin")


async def test_wal_that_slots_hold_counts_and_is_bounded(gateway: PlatformGateway) -> None:
    made = await project_on(gateway, "small")
    before = (await stored(gateway, made)).used_bytes
    async with await gateway.connect(made) as session:
        row = await (await session.execute("show max_slot_wal_keep_size")).fetchone()
        assert row == ("64MB",)
        # As a slot of logical replication would hold it.
        await as_superuser(gateway, made, "select pg_create_physical_replication_slot('held', true)")
        await session.execute("create table churned (text text)")
        churn = "select count(pg_logical_emit_message(false, '', repeat('x', 1000000))) from generate_series(1, {})"
        await session.execute(churn.format(16))
        assert 12 * MB < (await stored(gateway, made)).used_bytes - before < 24 * MB
        await session.execute(churn.format(72))
        await as_superuser(gateway, made, "checkpoint", "select 1")
        state = await (await session.execute("select wal_status from pg_replication_slots")).fetchone()
        assert state == ("lost",)
        assert (await stored(gateway, made)).used_bytes - before < 12 * MB
        await as_superuser(gateway, made, "select pg_drop_replication_slot('held')")


async def test_the_notification_queue_counts_and_is_bounded(
    gateway: PlatformGateway, large_quota_project: dict[str, Any]
) -> None:
    assert await query(gateway.platform, large_quota_project, "show max_notify_queue_pages") == "8192"
    before = (await stored(gateway, large_quota_project)).used_bytes
    async with (
        await gateway.connect(large_quota_project) as listener,
        await gateway.connect(large_quota_project) as session,
    ):
        await listener.execute("listen news")
        await listener.execute("begin")
        notify = "select count(pg_notify('news', repeat('x', 7900) || n)) from generate_series(1, {}) n"
        await session.execute(notify.format(2000))
        assert (await stored(gateway, large_quota_project)).used_bytes - before > 12 * MB
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="NOTIFY queue"):
            await session.execute(notify.format(8000))


async def test_exported_snapshots_count(gateway: PlatformGateway, large_quota_project: dict[str, Any]) -> None:
    before = (await stored(gateway, large_quota_project)).used_bytes
    async with await gateway.connect(large_quota_project) as session:
        await session.execute("begin isolation level repeatable read")
        await session.execute("select count(pg_export_snapshot()) from generate_series(1, 1000)")
        assert (await stored(gateway, large_quota_project)).used_bytes - before > 3 * MB, (
            "each is a file, however small"
        )


async def test_who_keeps_us_from_asking_is_counted_by_files(gateway: PlatformGateway) -> None:
    """A lock on a catalog of databases lets nobody in, and whoever is in goes on writing."""
    made = await project_on(gateway, "small")
    locker, writer = await gateway.connect(made), await gateway.connect(made)
    await writer.execute("create table much (text text)")
    await locker.execute("begin")
    await locker.execute("lock table pg_catalog.pg_database")
    await writer.execute("insert into much select repeat('x', 1000) from generate_series(1, 60000)")
    found = await stored(gateway, made)
    assert found.temp_file_limit_bytes is None
    assert found.used_bytes > 40 * MB
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.OVERFULL
    for session in (locker, writer):
        with pytest.raises(psycopg.OperationalError):
            await session.execute("select 1")
        await session.close()
    async with await gateway.connect(made) as session:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await session.execute(WRITE)


async def test_a_larger_plan_changes_the_limits_of_a_compute_that_runs(gateway: PlatformGateway) -> None:
    made = await project_on(gateway, "small")
    async with await gateway.connect(made) as session:
        row = await (await session.execute("show temp_file_limit")).fetchone()
        assert row == ("64MB",)
        await give(gateway, made, "roomy")
        await session.execute("select 1")
        await gateway.run_task(EnforceStorageLimits)
        # By a reload: the session is the same. The server's signal may reach it a moment after the reload returns.
        async with asyncio.timeout(30):
            while row != ("128MB",):
                await asyncio.sleep(0.05)
                row = await (await session.execute("show temp_file_limit")).fetchone()
        assert await gateway.run_task(EnforceStorageLimits) == ""
    assert (await stored(gateway, made)).temp_file_limit_bytes == storage.temp_file_bytes(256 * MB)

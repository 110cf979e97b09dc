"""Rule 4: the storage limit counts everything that a tenant can fill, and data outside its databases is bounded.

The plans are small, so that the tests write little. Tenants connect through the gateway.
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
from journeys.test_allowances import create_organization, get_fullness, move_to_plan
from support import platform_gateway
from support.branches import project_path, query, send_request
from support.platform_gateway import ClientConnection, PlatformGateway

MB = 1024**2
PLANS = {**DEFAULT_PLANS, "small": Plan(storage_bytes=32 * MB), "roomy": Plan(storage_bytes=256 * MB)}
HOLD_CURSOR = "declare {} cursor with hold for select repeat('x', 1000) from generate_series(1, {})"
SLEEPING = "from pg_stat_activity where wait_event = 'PgSleep'"
WRITE = "insert into kept values (1)"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[PlatformGateway]:
    plans = {name: plan.model_dump() for name, plan in PLANS.items()}
    async with platform_gateway.open_platform_gateway(plans=plans) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def large_quota_project(gateway: PlatformGateway) -> dict[str, Any]:
    return await create_project_on(gateway, "roomy")


async def create_project_on(gateway: PlatformGateway, plan: str, **settings: Any) -> dict[str, Any]:
    org_id = await create_organization(gateway.platform, plan)
    created = await gateway.platform.create_ready_project(org_id=org_id, **settings)
    await query(gateway.platform, created, "create table kept (n int)")
    return created


async def measure_storage(gateway: PlatformGateway, created: dict[str, Any]) -> StorageUsage:
    usage = await gateway.platform.engine.measure_storage(EndpointId(created["endpoints"][0]["id"]))
    assert usage is not None
    return usage


async def execute_as_superuser(
    gateway: PlatformGateway, created: dict[str, Any], *statements: str, database: str = MAINTENANCE_DATABASE
) -> Any:
    async with gateway.platform.connect(created["endpoints"][0]["id"], ADMIN_ROLE, database) as db:
        for statement in statements[:-1]:
            await db.execute(statement)
        return await db.fetchval(statements[-1])


async def hold_cursor(session: ClientConnection, rows: int, name: str = "held") -> None:
    """Declares a cursor that keeps its rows in temporary files after the transaction, until the session ends."""
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
    """In such a home, databases of Postgres were open to every role and may contain data."""
    grants = (
        "grant connect, temporary on database template1 to public",
        "grant temporary on database postgres to public",
        "grant execute on function lo_create(oid), lo_creat(int4), lo_from_bytea(oid, bytea) to public",
        "select 1",
    )
    await execute_as_superuser(gateway, large_quota_project, *grants)
    fill = "select lo_from_bytea(0, string_agg(sha512(n::text::bytea), '')) from generate_series(1, 16384) n"
    before = (await measure_storage(gateway, large_quota_project)).used_bytes
    await execute_as_superuser(gateway, large_quota_project, *grants)
    for database in ("postgres", "template1"):
        async with await gateway.connect(large_quota_project, dbname=database) as session:
            for _ in range(4):
                await session.execute(fill)
    assert (await measure_storage(gateway, large_quota_project)).used_bytes - before > 6 * MB
    for database in ("postgres", "template1"):
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.OperationalError)):
            async with await gateway.connect(large_quota_project, dbname=database) as session:
                await session.execute(fill)
        await execute_as_superuser(
            gateway,
            large_quota_project,
            "select lo_unlink(oid) from pg_largeobject_metadata",
            "select 1",
            database=database,
        )
        async with gateway.platform.connect(large_quota_project["endpoints"][0]["id"], ADMIN_ROLE, database) as db:
            await db.execute("vacuum full pg_largeobject")
    assert (await measure_storage(gateway, large_quota_project)).used_bytes - before < 2 * MB


async def test_shared_catalogs_count(gateway: PlatformGateway, large_quota_project: dict[str, Any]) -> None:
    before = (await measure_storage(gateway, large_quota_project)).used_bytes
    async with await gateway.connect(large_quota_project) as session:
        await session.execute(
            "do $$ begin execute format('comment on database neondb is %L', (select string_agg(md5(n::text), '') "
            "from generate_series(1, 100000) n)); end $$"
        )
    assert (await measure_storage(gateway, large_quota_project)).used_bytes - before > MB


async def test_temporary_files_count_and_are_bounded_for_each_session(
    gateway: PlatformGateway, large_quota_project: dict[str, Any]
) -> None:
    """The plan allows 256 MB; a session may use half of that for temporary files."""
    before = (await measure_storage(gateway, large_quota_project)).used_bytes
    async with await gateway.connect(large_quota_project) as session:
        row = await (await session.execute("show temp_file_limit")).fetchone()
        assert row == ("128MB",)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await session.execute("set temp_file_limit = -1")
        await hold_cursor(session, 30_000)
        assert (await measure_storage(gateway, large_quota_project)).used_bytes - before > 25 * MB
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="temp_file_limit"):
            await hold_cursor(session, 200_000, "another")
    assert (await measure_storage(gateway, large_quota_project)).used_bytes - before < 25 * MB, (
        "the temporary files outlived the session"
    )


async def test_a_tenant_cannot_give_itself_more_temporary_files(
    gateway: PlatformGateway, large_quota_project: dict[str, Any]
) -> None:
    body = {"endpoint": {"settings": {"pg_settings": {"temp_file_limit": "-1"}}}}
    path = f"{project_path(large_quota_project)}/endpoints/{large_quota_project['endpoints'][0]['id']}"
    error = await send_request(gateway.platform, "PATCH", path, status=400, body=body)
    assert "follows from the plan" in error["message"]


async def test_a_branch_that_temporary_files_filled_comes_back_when_they_are_gone(
    gateway: PlatformGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforce_storage_limits, "IDLE_INTERVAL", 0.0)
    monkeypatch.setattr(enforce_storage_limits, "MAX_GROWTH_PER_SECOND", 1e15)  # every branch is due in every pass
    created = await create_project_on(gateway, "small")
    async with await gateway.connect(created) as session:
        await hold_cursor(session, 34_000)
        await gateway.run_task(EnforceStorageLimits)
        assert await get_fullness(gateway, created) is Fullness.FULL
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await session.execute(WRITE)
        await session.execute("close held")
        await gateway.run_task(EnforceStorageLimits)
        assert await get_fullness(gateway, created) is Fullness.BELOW_LIMIT
        await session.execute(WRITE)
        await hold_cursor(session, 50_000)
        await gateway.run_task(EnforceStorageLimits)
        assert await get_fullness(gateway, created) is Fullness.OVERFULL
        with pytest.raises(psycopg.OperationalError):  # the compute was restarted, which removed the files
            await session.execute("select 1")
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.BELOW_LIMIT, (
        "the branch is still over its limit without a session"
    )
    async with await gateway.connect(created) as session:
        await session.execute(WRITE)


async def test_a_statement_that_runs_without_a_word_to_its_client_is_measured_again(
    gateway: PlatformGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforce_storage_limits, "MAX_GROWTH_PER_SECOND", 1e15)  # every branch is due in every pass
    created = await create_project_on(gateway, "small")
    await query(gateway.platform, created, "create table much (text text)")
    async with await gateway.connect(created) as session:
        sleep_task = asyncio.ensure_future(session.execute("select pg_sleep(20)"))
        await wait_until_sleeping(gateway, created)
        await gateway.run_task(EnforceStorageLimits)  # sees the activity of the client up to here, and none after
        await query(
            gateway.platform, created, "insert into much select repeat('x', 1000) from generate_series(1, 34000)"
        )
        await gateway.run_task(EnforceStorageLimits)
        assert await get_fullness(gateway, created) is Fullness.FULL
        await query(gateway.platform, created, f"select pg_terminate_backend(pid) {SLEEPING}")
        with pytest.raises(psycopg.OperationalError):
            await sleep_task


async def wait_until_sleeping(gateway: PlatformGateway, created: dict[str, Any]) -> None:
    for _ in range(1000):
        if await query(gateway.platform, created, f"select count(*) {SLEEPING}"):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the statement did not start")


async def test_wal_that_slots_hold_counts_and_is_bounded(gateway: PlatformGateway) -> None:
    created = await create_project_on(gateway, "small")
    before = (await measure_storage(gateway, created)).used_bytes
    async with await gateway.connect(created) as session:
        row = await (await session.execute("show max_slot_wal_keep_size")).fetchone()
        assert row == ("64MB",)
        # A slot of logical replication retains WAL in the same way.
        await execute_as_superuser(gateway, created, "select pg_create_physical_replication_slot('held', true)")
        await session.execute("create table churned (text text)")
        churn = "select count(pg_logical_emit_message(false, '', repeat('x', 1000000))) from generate_series(1, {})"
        await session.execute(churn.format(16))
        assert 12 * MB < (await measure_storage(gateway, created)).used_bytes - before < 24 * MB
        await session.execute(churn.format(72))
        await execute_as_superuser(gateway, created, "checkpoint", "select 1")
        state = await (await session.execute("select wal_status from pg_replication_slots")).fetchone()
        assert state == ("lost",)
        assert (await measure_storage(gateway, created)).used_bytes - before < 12 * MB
        await execute_as_superuser(gateway, created, "select pg_drop_replication_slot('held')")


async def test_the_notification_queue_counts_and_is_bounded(
    gateway: PlatformGateway, large_quota_project: dict[str, Any]
) -> None:
    assert await query(gateway.platform, large_quota_project, "show max_notify_queue_pages") == "8192"
    before = (await measure_storage(gateway, large_quota_project)).used_bytes
    async with (
        await gateway.connect(large_quota_project) as listener,
        await gateway.connect(large_quota_project) as session,
    ):
        await listener.execute("listen news")
        await listener.execute("begin")
        notify = "select count(pg_notify('news', repeat('x', 7900) || n)) from generate_series(1, {}) n"
        await session.execute(notify.format(2000))
        assert (await measure_storage(gateway, large_quota_project)).used_bytes - before > 12 * MB
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="NOTIFY queue"):
            await session.execute(notify.format(8000))


async def test_exported_snapshots_count(gateway: PlatformGateway, large_quota_project: dict[str, Any]) -> None:
    before = (await measure_storage(gateway, large_quota_project)).used_bytes
    async with await gateway.connect(large_quota_project) as session:
        await session.execute("begin isolation level repeatable read")
        await session.execute("select count(pg_export_snapshot()) from generate_series(1, 1000)")
        assert (await measure_storage(gateway, large_quota_project)).used_bytes - before > 3 * MB, (
            "each snapshot is a file and takes at least one block"
        )


async def test_who_keeps_us_from_asking_is_counted_by_files(gateway: PlatformGateway) -> None:
    """A lock on pg_database blocks new sessions, while sessions that are already open can write."""
    created = await create_project_on(gateway, "small")
    locker, writer = await gateway.connect(created), await gateway.connect(created)
    await writer.execute("create table much (text text)")
    await locker.execute("begin")
    await locker.execute("lock table pg_catalog.pg_database")
    await writer.execute("insert into much select repeat('x', 1000) from generate_series(1, 60000)")
    usage = await measure_storage(gateway, created)
    assert usage.temp_file_limit_bytes is None
    assert usage.used_bytes > 40 * MB
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.OVERFULL
    for session in (locker, writer):
        with pytest.raises(psycopg.OperationalError):
            await session.execute("select 1")
        await session.close()
    async with await gateway.connect(created) as session:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await session.execute(WRITE)


async def test_a_larger_plan_changes_the_limits_of_a_compute_that_runs(gateway: PlatformGateway) -> None:
    created = await create_project_on(gateway, "small")
    async with await gateway.connect(created) as session:
        row = await (await session.execute("show temp_file_limit")).fetchone()
        assert row == ("64MB",)
        await move_to_plan(gateway, created, "roomy")
        await session.execute("select 1")
        await gateway.run_task(EnforceStorageLimits)
        # A reload changes the limit of the open session. Its signal may arrive shortly after the reload returns.
        async with asyncio.timeout(30):
            while row != ("128MB",):
                await asyncio.sleep(0.05)
                row = await (await session.execute("show temp_file_limit")).fetchone()
        assert await gateway.run_task(EnforceStorageLimits) == ""
    assert (await measure_storage(gateway, created)).temp_file_limit_bytes == storage.temp_file_bytes(256 * MB)

"""What clients of the gateway see while a maintenance window restarts their compute for another Postgres build."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from bough import clock
from bough.config import default_cache
from bough.engine.local.installs import download
from bough.ids import ProjectId
from bough.tasks.run_maintenance import RunMaintenance
from support.broken_builds import add_copy, select_build
from support.install_cache import add_install, temporary_cache
from support.platform_gateway import ClientConnection, PlatformGateway, open_platform_gateway

ADMIN_SHUTDOWN = "57P01"
SELECT_VERSION = "show server_version"


@pytest.fixture
async def served() -> AsyncIterator[PlatformGateway]:
    with temporary_cache() as cache:
        add_install(cache, download.fetch_install(17, default_cache()))
        async with open_platform_gateway(cache=cache) as opened:
            yield opened


async def plan(served: PlatformGateway, project: str) -> datetime:
    debian = download.fetch_install(17, default_cache())
    newer = add_copy(Path(served.platform.settings.cache), debian, "17.98", is_broken=False)
    select_build(served.platform.settings, newer)
    await served.platform.engine.follow_builds()
    await served.run_task(RunMaintenance)
    async with served.platform.store.read() as rows:
        planned = await rows.maintenance.get(ProjectId(project))
    assert planned is not None
    assert planned.scheduled_for is not None
    return planned.scheduled_for


async def fetch_pid(client: ClientConnection) -> int:
    row = await (await client.execute("select pg_postmaster_start_time()::text, pg_backend_pid()")).fetchone()
    assert row is not None
    return int(row[1])


async def test_new_connections_wait_for_the_restart(served: PlatformGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    created = await served.platform.create_ready_project()
    scheduled_for = await plan(served, created["project"]["id"])
    direct, pooled = await served.connect(created), await served.connect(created, pooled=True)
    await direct.execute("create table numbers (n int)")
    await pooled.execute("select 1")
    before = await fetch_pid(pooled)
    now, shift = clock.now, scheduled_for - clock.now() + timedelta(seconds=1)
    monkeypatch.setattr(clock, "now", lambda: now() + shift)
    connected = 0
    async with served.platform.background_runner():
        [task] = [
            each for loop in served.platform.inner.loops for each in loop.tasks if isinstance(each, RunMaintenance)
        ]
        assert await task.run() == "restarting 1 computes"
        while await is_open(served):
            for is_pooled in (False, True):
                async with await served.connect(created, pooled=is_pooled) as client:
                    await client.execute("insert into numbers values (1)")
                connected += 1
        await task.run()
    assert connected > 0
    with pytest.raises(psycopg.OperationalError) as ended:
        await direct.execute("select 1")
    assert ended.value.sqlstate == ADMIN_SHUTDOWN
    assert await fetch_pid(pooled) != before, (
        "a pooled client without a transaction only gets another server connection"
    )
    count = await (await pooled.execute("select count(*) from numbers")).fetchone()
    assert count == (connected,), "nothing that was committed is lost"
    await direct.close()
    await pooled.close()


async def is_open(served: PlatformGateway) -> bool:
    await asyncio.sleep(0)
    async with served.platform.store.read() as rows:
        return await rows.operations.count_open() > 0

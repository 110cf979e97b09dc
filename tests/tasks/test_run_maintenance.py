"""Computes are restarted in the maintenance window of their project, and only there."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bough import clock
from bough.config import default_cache
from bough.domain.endpoint import EndpointState
from bough.domain.maintenance import Maintenance
from bough.domain.organization import MemberRole
from bough.engine.local.installs import download
from bough.engine.local.installs.installs import Install
from bough.ids import EndpointId, ProjectId
from bough.tasks.run_maintenance import REQUEST_ID, RunMaintenance
from support.accounts import Account, add_account, add_member, list_mails
from support.branches import create_branch, query, send_request, suspend_compute
from support.broken_builds import MESSAGE, add_copy, select_build
from support.install_cache import add_install, temporary_cache
from support.platform import API, Platform, open_platform
from support.postgres import PostgresServer
from support.stores import EVERYDAY_BACKENDS, ORGANIZATION

Json = dict[str, Any]
WINDOW = {"weekdays": [1, 2, 3, 4, 5, 6, 7], "start_time": "03:00", "end_time": "05:00"}
VERSION = "show server_version"


@pytest.fixture(scope="module")
def debian() -> Install:
    return download.fetch_install(17, default_cache())


@pytest.fixture(params=EVERYDAY_BACKENDS)
async def platform(
    request: pytest.FixtureRequest, postgres_server: PostgresServer, debian: Install
) -> AsyncIterator[Platform]:
    url = "" if request.param == "sqlite" else await postgres_server.create_store_database()
    with temporary_cache() as cache:
        add_install(cache, debian)
        async with open_platform(store_url=url, cache=cache, smtp_url="smtp://127.0.0.1:1") as opened:
            yield opened


async def update(platform: Platform, debian: Install, version: str = "17.98", *, is_broken: bool = False) -> Install:
    added = add_copy(Path(platform.settings.cache), debian, version, is_broken=is_broken)
    select_build(platform.settings, added)
    await platform.engine.follow_builds()
    return added


@contextmanager
def clock_at(moment: datetime) -> Iterator[None]:
    """Start the clock at a moment. It goes on, because the operations of a restart are due one after another."""
    now, shift = clock.now, moment - clock.now()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "now", lambda: now() + shift)
        yield


def make_task(platform: Platform, **settings: Any) -> RunMaintenance:
    services = platform.services
    changed = services.settings.model_copy(update=settings)
    return RunMaintenance(changed, services.store, platform.engine, services.queue, services.vault)


async def run(platform: Platform, moment: datetime | None = None, **settings: Any) -> None:
    """Run the task at a moment, then the operations that it enqueued."""
    with clock_at(moment or clock.now()):
        await make_task(platform, **settings).run()
        await platform.run_operations()


async def get_plan(platform: Platform, created: Json) -> Maintenance:
    async with platform.store.read() as rows:
        plan = await rows.maintenance.get(ProjectId(created["project"]["id"]))
    assert plan is not None
    return plan


async def plan(platform: Platform, created: Json) -> datetime:
    await run(platform)
    scheduled_for = (await get_plan(platform, created)).scheduled_for
    assert scheduled_for is not None
    return scheduled_for


async def get_project(platform: Platform, created: Json) -> Json:
    found = await send_request(platform, "GET", f"{API}/projects/{created['project']['id']}")
    project: Json = found["project"]
    return project


async def get_maintenance(platform: Platform, created: Json) -> Json:
    return await send_request(platform, "GET", f"{API}/bough/projects/{created['project']['id']}/maintenance")


async def list_restarts(platform: Platform, created: Json) -> list[tuple[str, str]]:
    operations = await platform.list_operations(created["project"]["id"])
    return [(each.kind.value, str(each.endpoint_id)) for each in operations if each.request_id == REQUEST_ID]


async def list_builds(platform: Platform) -> dict[str, str]:
    runs = await platform.inner.engine._components.running.list_runs()  # type: ignore[attr-defined]
    return {run.endpoint_id: run.install for run in runs}


def restarts_of(*endpoints: str) -> list[tuple[str, str]]:
    return [(kind, each) for each in endpoints for kind in ("suspend_compute", "start_compute")]


async def test_an_update_reaches_the_computes_in_their_window_and_only_there(
    platform: Platform, debian: Install
) -> None:
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    child, sleeping = await create_branch(platform, created), await create_branch(platform, created)
    await suspend_compute(platform, sleeping)
    project, branch = created["project"]["id"], created["branch"]["id"]
    body = {"endpoint": {"branch_id": branch, "type": "read_only"}}
    made = await send_request(platform, "POST", f"{API}/projects/{project}/endpoints", status=201, body=body)
    await platform.run_operations()
    await query(platform, created, "create table numbers as select 7 as n")
    primary, replica = created["endpoints"][0]["id"], made["endpoint"]["id"]
    other = child["endpoints"][0]["id"]
    asleep = sleeping["endpoints"][0]["id"]
    await run(platform)
    assert "maintenance_scheduled_for" not in await get_project(platform, created)

    newer = await update(platform, debian)
    scheduled_for = await plan(platform, created)
    assert scheduled_for - clock.now() > timedelta(hours=24) - timedelta(minutes=1)
    assert (scheduled_for.hour, scheduled_for.minute) == (3, 0)
    shown = (await get_project(platform, created))["maintenance_scheduled_for"]
    assert datetime.fromisoformat(shown) == scheduled_for
    assert shown.endswith(":00Z"), "with seconds and zone"
    listed = await send_request(platform, "GET", f"{API}/projects")
    assert "maintenance_scheduled_for" not in listed["projects"][0]
    found = await get_maintenance(platform, created)
    assert {each["endpoint_id"] for each in found["needed_restarts"]} == {primary, other, replica}
    assert {(each["from_version"], each["to_version"]) for each in found["needed_restarts"]} == {
        (debian.version, "17.98")
    }

    for moment in (clock.now() + timedelta(hours=1), scheduled_for - timedelta(seconds=1)):
        await run(platform, moment)
        assert await list_restarts(platform, created) == []
    for minutes in range(4):
        await run(platform, scheduled_for + timedelta(minutes=minutes))
    restarts = await list_restarts(platform, created)
    assert sorted(restarts) == sorted(restarts_of(primary, other, replica)), "each once; the sleeping one not at all"
    assert restarts.index(("start_compute", primary)) < restarts.index(("suspend_compute", replica))
    assert await list_builds(platform) == dict.fromkeys((primary, other, replica), newer.id)
    assert await query(platform, created, "select n from numbers") == 7
    assert "maintenance_scheduled_for" not in await get_project(platform, created)
    outcome = (await get_maintenance(platform, created))["last_outcome"]
    assert (sorted(outcome["restarted"]), outcome["failed"]) == (sorted((primary, other, replica)), {})
    await send_request(platform, "POST", f"{API}/projects/{project}/endpoints/{asleep}/start")
    await platform.run_operations()
    assert (await list_builds(platform))[asleep] == newer.id
    await run(platform, scheduled_for + timedelta(days=1))
    assert await list_restarts(platform, created) == restarts


async def test_one_compute_at_a_time_is_restarted(platform: Platform, debian: Install) -> None:
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    await create_branch(platform, created)
    await update(platform, debian)
    scheduled_for = await plan(platform, created)
    with clock_at(scheduled_for):
        for _ in range(3):  # a new control process each time
            await make_task(platform).run()
            assert len(await list_restarts(platform, created)) == 2
        await platform.run_operations()
        await make_task(platform).run()
        assert len(await list_restarts(platform, created)) == 4
        await platform.run_operations()
        await make_task(platform).run()
    assert len((await get_maintenance(platform, created))["last_outcome"]["restarted"]) == 2


async def test_open_transactions_delay_a_restart_until_the_end_of_the_window(
    platform: Platform, debian: Install
) -> None:
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    await update(platform, debian)
    scheduled_for = await plan(platform, created)
    async with platform.connect(created["endpoints"][0]["id"], "neondb_owner", "neondb") as client:
        await client.execute("begin")
        for minutes in (0, 60, 109):
            await run(platform, scheduled_for + timedelta(minutes=minutes))
            assert await list_restarts(platform, created) == []
        await client.execute("commit")
        await run(platform, scheduled_for + timedelta(minutes=109, seconds=10))
        assert len(await list_restarts(platform, created)) == 2


async def test_the_last_ten_minutes_do_not_wait(platform: Platform, debian: Install) -> None:
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    newer = await update(platform, debian)
    scheduled_for = await plan(platform, created)
    endpoint = created["endpoints"][0]["id"]
    async with platform.connect(endpoint, "neondb_owner", "neondb") as client:
        await client.execute("begin")
        await run(platform, scheduled_for + timedelta(minutes=110))
    assert await list_builds(platform) == {endpoint: newer.id}


async def test_what_was_restarted_before_the_window_is_left_alone(platform: Platform, debian: Install) -> None:
    account = await add_account(platform.services)
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    await add_admin(platform, account)
    await update(platform, debian)
    scheduled_for = await plan(platform, created)
    path = f"{API}/projects/{created['project']['id']}/endpoints/{created['endpoints'][0]['id']}"
    await send_request(platform, "POST", f"{path}/restart")
    await platform.run_operations()
    await run(platform, scheduled_for - timedelta(hours=1))
    assert "maintenance_scheduled_for" in await get_project(platform, created), "the notice stays until its time"
    await run(platform, scheduled_for)
    assert "maintenance_scheduled_for" not in await get_project(platform, created)
    assert await list_restarts(platform, created) == []
    assert len(await read_mails(platform, account)) == 1, "nothing was done, so nothing is reported"


async def read_mails(platform: Platform, account: Account) -> list[tuple[str, str]]:
    with clock_at(clock.now() + timedelta(days=3)):  # they were stored in the future
        return await list_mails(platform.services, account.user.email)


async def add_admin(platform: Platform, account: Account) -> None:
    """The projects of the operator get a second admin, with an address."""
    async with platform.store.read() as rows:
        organization = await rows.organizations.get(ORGANIZATION)
    assert organization is not None
    await add_member(platform.services, organization, account, MemberRole.ADMIN)


async def test_owners_are_told_before_and_after(platform: Platform, debian: Install) -> None:
    account = await add_account(platform.services)
    created = await platform.create_ready_project(name="shop\n", settings={"maintenance_window": WINDOW})
    await create_branch(platform, created)
    await add_admin(platform, account)
    await update(platform, debian)
    scheduled_for = await plan(platform, created)
    for _ in range(2):
        await run(platform, scheduled_for - timedelta(hours=1))
    [(subject, text)] = await read_mails(platform, account)
    assert subject == "Maintenance of the project shop"
    assert f"{scheduled_for:%Y-%m-%d %H:%M} UTC" in text
    assert text.count(f"Postgres {debian.version} → 17.98") == 2
    for _ in range(4):
        await run(platform, scheduled_for)
    [_, (subject, text)] = await read_mails(platform, account)
    assert subject == "Maintenance of the project shop has ended"
    assert text.count(": restarted") == 2
    entries = await send_request(platform, "GET", f"{API}/bough/audit?project_id={created['project']['id']}&limit=100")
    actions = [each["action"] for each in entries["audit"] if each["actor"]["kind"] == "platform"]
    assert sorted(actions) == ["end_maintenance", "plan_maintenance", "restart_endpoint", "restart_endpoint"]


async def test_another_window_moves_what_is_planned(platform: Platform, debian: Install) -> None:
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    await update(platform, debian)
    scheduled_for = await plan(platform, created)
    window = {"weekdays": [1, 2, 3, 4, 5, 6, 7], "start_time": "07:00", "end_time": "08:00"}
    path = f"{API}/projects/{created['project']['id']}"
    changed = await send_request(
        platform, "PATCH", path, body={"project": {"settings": {"maintenance_window": window}}}
    )
    assert changed["project"]["settings"]["maintenance_window"] == window
    moved = datetime.fromisoformat(changed["project"]["maintenance_scheduled_for"])
    assert (moved.hour, moved >= scheduled_for - timedelta(hours=24)) == (7, True)
    await run(platform, scheduled_for)
    assert await list_restarts(platform, created) == []
    await run(platform, moved)
    assert len(await list_restarts(platform, created)) == 2


async def test_a_missed_window_leads_to_the_next_one_and_twice_to_the_next_hour(
    platform: Platform, debian: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bough.engine.local.installs.changelog.list_fixed_cves", lambda *_: ("CVE-2026-1",))
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    await update(platform, debian)
    scheduled_for = await plan(platform, created)
    await run(platform, scheduled_for + timedelta(hours=3))
    missed = await get_plan(platform, created)
    assert (missed.scheduled_for, missed.missed_windows) == (scheduled_for + timedelta(days=1), 1)
    assert (await get_maintenance(platform, created))["last_outcome"]["passed_over"] == [created["endpoints"][0]["id"]]
    await run(platform, scheduled_for + timedelta(hours=27, minutes=10), maintenance_forces_security=True)
    forced = await get_plan(platform, created)
    assert (forced.scheduled_for, forced.missed_windows) == (scheduled_for + timedelta(hours=28), 2)
    assert await list_restarts(platform, created) == []
    await run(platform, scheduled_for + timedelta(hours=28))
    assert len(await list_restarts(platform, created)) == 2
    await run(platform, scheduled_for + timedelta(hours=28, minutes=1))
    assert not (await get_plan(platform, created)).is_planned


async def test_a_build_that_does_not_start_is_put_back_and_reported(platform: Platform, debian: Install) -> None:
    account = await add_account(platform.services)
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    await add_admin(platform, account)
    await update(platform, debian, is_broken=True)
    scheduled_for = await plan(platform, created)
    for _ in range(2):
        await run(platform, scheduled_for)
    endpoint = created["endpoints"][0]["id"]
    assert await list_builds(platform) == {endpoint: debian.id}
    assert await query(platform, created, "select 1") == 1
    found = await get_maintenance(platform, created)
    assert "scheduled_for" not in found, "it is not tried again"
    assert MESSAGE in found["last_outcome"]["failed"][endpoint]
    assert [(each["endpoint_id"], each["kept_version"]) for each in found["failed_builds"]] == [
        (endpoint, debian.version)
    ]
    [start] = [
        each
        for each in await platform.list_operations(created["project"]["id"])
        if each.request_id == REQUEST_ID and each.kind == "start_compute"
    ]
    assert MESSAGE in (start.error or "")
    assert MESSAGE in (await read_mails(platform, account))[-1][1]
    builds = await send_request(platform, "GET", f"{API}/bough/postgres")
    assert [(each["endpoint_id"], each["version"]) for each in builds["put_back"]] == [(endpoint, "17.98")]
    await run(platform, scheduled_for + timedelta(days=1))
    assert len(await list_restarts(platform, created)) == 2
    newest = await update(platform, debian, "17.99")
    again = await plan(platform, created)
    await run(platform, again)
    assert await list_builds(platform) == {endpoint: newest.id}
    assert (await get_maintenance(platform, created))["failed_builds"] == []


async def test_a_compute_that_changes_its_state_is_passed_over(platform: Platform, debian: Install) -> None:
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    await update(platform, debian)
    scheduled_for = await plan(platform, created)
    endpoint = await platform.get_endpoint(created)
    async with platform.store.transaction() as rows:
        await rows.endpoints.save(replace(endpoint, pending_state=EndpointState.IDLE))
    await run(platform, scheduled_for)
    assert await list_restarts(platform, created) == []
    async with platform.store.transaction() as rows:
        await rows.endpoints.save(endpoint)
    await run(platform, scheduled_for + timedelta(hours=2))
    assert (await get_plan(platform, created)).scheduled_for == scheduled_for + timedelta(days=1)
    await run(platform, scheduled_for + timedelta(days=1))
    assert len(await list_restarts(platform, created)) == 2


async def test_libraries_of_the_project_wait_for_the_window(platform: Platform) -> None:
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    endpoint = EndpointId(created["endpoints"][0]["id"])
    before = await platform.engine.list_preloaded(endpoint)
    settings = {"preload_libraries": {"enabled_libraries": ["pg_stat_statements", "auto_explain"]}}
    path = f"{API}/projects/{created['project']['id']}"
    await send_request(platform, "PATCH", path, body={"project": {"settings": settings}})
    await platform.run_operations()
    assert await platform.engine.list_preloaded(endpoint) == before, "the change restarts nothing"
    scheduled_for = await plan(platform, created)
    [need] = (await get_maintenance(platform, created))["needed_restarts"]
    assert (need["reasons"], "shared_preload_libraries" in need["settings"]) == (["settings"], True)
    await run(platform, scheduled_for)
    assert "auto_explain" in (await platform.engine.list_preloaded(endpoint) or ())
    await run(platform, scheduled_for + timedelta(minutes=1))
    assert not (await get_plan(platform, created)).is_planned


async def test_control_that_ends_between_the_operations_of_a_restart(platform: Platform, debian: Install) -> None:
    """The next control process continues the operations; the task enqueues no second restart."""
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    newer = await update(platform, debian)
    scheduled_for = await plan(platform, created)
    with clock_at(scheduled_for):
        await make_task(platform).run()
        runner = asyncio.create_task(platform.inner.runner.run())
        while (await platform.get_endpoint(created)).state is EndpointState.ACTIVE:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        await make_task(platform).run()
    with clock_at(scheduled_for + timedelta(minutes=2)):  # after the lease
        await make_task(platform).run()
        await platform.run_operations()
        await make_task(platform).run()
    assert await list_restarts(platform, created) == restarts_of(created["endpoints"][0]["id"])
    assert await list_builds(platform) == {created["endpoints"][0]["id"]: newer.id}
    assert not (await get_plan(platform, created)).is_planned


async def test_a_restart_that_does_not_help_is_not_repeated_in_the_window(
    platform: Platform, debian: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await platform.create_ready_project(settings={"maintenance_window": WINDOW})
    await update(platform, debian)
    scheduled_for = await plan(platform, created)
    needs = await platform.engine.list_restart_needs()

    async def list_needs() -> object:
        return needs

    monkeypatch.setattr(platform.engine, "list_restart_needs", list_needs)
    for minutes in range(3):
        await run(platform, scheduled_for + timedelta(minutes=minutes))
    assert len(await list_restarts(platform, created)) == 2
    await run(platform, scheduled_for + timedelta(hours=2))
    assert (await get_plan(platform, created)).scheduled_for == scheduled_for + timedelta(days=1)

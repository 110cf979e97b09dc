"""The five quotas of a project, as clients of direct and pooled hosts and callers of the API see them."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from bough import clock
from bough.control.gateway import quota_warnings
from bough.control.platform import mail
from bough.domain.calendar_month import start_of_next_month
from bough.ids import ProjectId
from bough.store.audit import AuditQuery
from bough.tasks.count_usage import CountUsage
from bough.tasks.enforce_quotas import EnforceQuotas
from bough.tasks.enforce_storage_limits import EnforceStorageLimits
from bough.tasks.measure_branches import MeasureBranches
from support import platform_gateway
from support.branches import create_branch, project_path, query, send_request, shift_clock
from support.platform_gateway import PlatformGateway

MB = 1024**2
QUOTAS = {
    "active_time_seconds": ("ACTIVE_TIME_QUOTA_EXCEEDED", "exceeded the active time quota of 1 seconds"),
    "compute_time_seconds": ("COMPUTE_TIME_QUOTA_EXCEEDED", "exceeded the compute time quota of 1 CU-seconds"),
    "written_data_bytes": ("WRITTEN_DATA_QUOTA_EXCEEDED", "exceeded the written data quota of 1 bytes"),
    "data_transfer_bytes": ("DATA_TRANSFER_QUOTA_EXCEEDED", "exceeded the data transfer quota of 1 bytes"),
}

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[PlatformGateway]:
    async with platform_gateway.open_platform_gateway() as opened:
        yield opened


async def set_quota(gateway: PlatformGateway, created: dict[str, Any], **values: int) -> dict[str, Any]:
    body = {"project": {"settings": {"quota": values}}}
    return await send_request(gateway.platform, "PATCH", project_path(created), body=body)


async def use_everything(gateway: PlatformGateway, created: dict[str, Any]) -> None:
    """Use something of all that quotas limit, and count it."""
    async with await gateway.connect(created) as session:
        await session.execute(
            "create table if not exists much as select repeat('x', 1000) from generate_series(1, 100)"
        )
        await session.execute("select repeat('x', 10000)")
    with shift_clock(timedelta(minutes=1)):
        await gateway.run_task(CountUsage)
    await gateway.run_task(MeasureBranches)


async def expect_refusal(gateway: PlatformGateway, created: dict[str, Any], phrase: str) -> None:
    for pooled in (False, True):
        with pytest.raises(psycopg.OperationalError) as refusal:
            await gateway.connect(created, pooled=pooled)
        text = str(refusal.value)
        until = start_of_next_month(clock.now()).isoformat().replace("+00:00", "Z")
        assert re.search(rf"The project has {phrase}\. Its computes are suspended until {until}\.", text), text
        assert "HINT:  Wait until then, or raise settings.quota." in text
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            await gateway.connect(created, pooled=pooled, password="wrong")


async def read_mail(gateway: PlatformGateway) -> list[tuple[str, str]]:
    async with gateway.platform.store.read() as rows:
        waiting = await rows.mail_messages.list_due(clock.now() + timedelta(days=1), 1000)
    return [(each.subject, mail.open_text(gateway.platform.services.vault, each)) for each in waiting]


@pytest.mark.parametrize("name", QUOTAS)
async def test_a_project_that_has_used_its_quota_stops_until_it_is_raised(gateway: PlatformGateway, name: str) -> None:
    code, phrase = QUOTAS[name]
    created = await gateway.platform.create_ready_project(name=f"limited {name}")
    direct, pooled = await gateway.connect(created), await gateway.connect(created, pooled=True)
    await use_everything(gateway, created)
    await direct.execute("begin")
    await direct.execute("insert into much values ('open')")
    await pooled.execute("select 1")
    await set_quota(gateway, created, **{name: 2**60})
    assert await gateway.run_task(EnforceQuotas) == ""
    changed = await set_quota(gateway, created, **{name: 1})
    assert [each["action"] for each in changed["operations"]] == ["suspend_compute"]
    assert changed["project"]["settings"]["quota"] == {name: 1}
    await gateway.platform.run_operations()
    assert not (await gateway.platform.engine.observe()).running_endpoints & {created["endpoints"][0]["id"]}
    for session in (direct, pooled):
        with pytest.raises(psycopg.OperationalError):
            await session.execute("select 1")
        await session.close()
    await expect_refusal(gateway, created, phrase)
    endpoint = f"{project_path(created)}/endpoints/{created['endpoints'][0]['id']}"
    for verb in ("start", "restart"):
        refusal = await send_request(gateway.platform, "POST", f"{endpoint}/{verb}", status=422)
        assert (refusal["code"], phrase in refusal["message"]) == (code, True)
    assert await gateway.run_task(EnforceQuotas) == "", "everything is stopped already"
    await set_quota(gateway, created, **{name: 0})
    async with gateway.platform.background_runner(), await gateway.connect(created) as session:
        row = await (await session.execute("select count(*) from much")).fetchone()
    assert row == (100,)


async def test_what_is_used_is_noticed_without_being_told(gateway: PlatformGateway) -> None:
    created = await gateway.platform.create_ready_project()
    await set_quota(gateway, created, active_time_seconds=30)
    await use_everything(gateway, created)
    assert "suspending 1 computes" in await gateway.run_task(EnforceQuotas)
    await expect_refusal(gateway, created, "exceeded the active time quota of 30 seconds")


async def test_the_next_month_lets_clients_in_again(gateway: PlatformGateway) -> None:
    created = await gateway.platform.create_ready_project()
    await use_everything(gateway, created)
    await set_quota(gateway, created, active_time_seconds=1)
    await gateway.platform.run_operations()
    with shift_clock(start_of_next_month(clock.now()) - clock.now() + timedelta(seconds=1)):
        await gateway.run_task(CountUsage)
        await gateway.run_task(EnforceQuotas)
        async with gateway.platform.background_runner(), await gateway.connect(created) as session:
            await session.execute("select 1")


async def test_new_branches_of_a_stopped_project_do_not_start(gateway: PlatformGateway) -> None:
    created = await gateway.platform.create_ready_project()
    await use_everything(gateway, created)
    await set_quota(gateway, created, active_time_seconds=1)
    await gateway.platform.run_operations()
    child = await create_branch(gateway.platform, created)
    assert [each["action"] for each in child["operations"]] == ["create_branch"]
    assert child["endpoints"][0].get("pending_state") is None
    replica = {"endpoint": {"branch_id": created["branch"]["id"], "type": "read_only"}}
    added = await send_request(gateway.platform, "POST", f"{project_path(created)}/endpoints", status=201, body=replica)
    assert added["operations"] == []
    await set_quota(gateway, created, active_time_seconds=0)
    start = f"{project_path(created)}/endpoints/{child['endpoints'][0]['id']}/start"
    await send_request(gateway.platform, "POST", start)
    await gateway.platform.run_operations()
    assert await query(gateway.platform, child, "select count(*) from much") == 100


async def test_the_owner_is_warned_once(gateway: PlatformGateway) -> None:
    created = await gateway.platform.create_ready_project(name="warned")
    await use_everything(gateway, created)
    used = (await send_request(gateway.platform, "GET", project_path(created)))["project"]["active_time_seconds"]
    await set_quota(gateway, created, active_time_seconds=used + used // 10)
    await gateway.run_task(EnforceQuotas)
    await set_quota(gateway, created, active_time_seconds=used)
    await gateway.run_task(EnforceQuotas)
    subjects = [subject for subject, _ in await read_mail(gateway) if subject.startswith("warned: ")]
    assert subjects == ["warned: 80 % of the active time quota is used", "warned: the active time quota is reached"]
    async with gateway.platform.store.read() as rows:
        asked = AuditQuery(project_id=ProjectId(created["project"]["id"]), action=quota_warnings.ACTION)
        entries = await rows.audit.page(asked, 10, None)
    assert sorted(entry.details["percent"] for entry in entries) == [80, 100]


async def test_the_logical_size_quota_stops_writes_of_one_branch(gateway: PlatformGateway) -> None:
    created = await gateway.platform.create_ready_project(name="sized")
    child = await create_branch(gateway.platform, created)
    fill = "create table much as select repeat('x', 1000) as text from generate_series(1, 3700)"
    async with await gateway.connect(created) as direct, await gateway.connect(created, pooled=True) as pooled:
        await direct.execute(fill)
        await set_quota(gateway, created, logical_size_bytes=4 * MB)
        await gateway.run_task(EnforceStorageLimits)
        for session in (direct, pooled):
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as refusal:
                await session.execute("insert into much values ('x')")
            hint = refusal.value.diag.message_hint or ""
            assert hint.startswith("The branch has exceeded the logical size quota of 4 MB of its project. Raise ")
        assert await query(gateway.platform, child, "select 1") == 1
        await query(gateway.platform, child, "create table small (n int)")
        await set_quota(gateway, created, logical_size_bytes=0)
        await gateway.run_task(EnforceStorageLimits)
        for session in (direct, pooled):
            await session.execute("insert into much values ('x')")
    assert [subject for subject, _ in await read_mail(gateway) if subject.startswith("sized")] == [
        "sized: 100 % of the logical size quota is used"
    ]


async def test_a_branch_far_over_its_quota_says_what_to_do(gateway: PlatformGateway) -> None:
    created = await gateway.platform.create_ready_project()
    await set_quota(gateway, created, logical_size_bytes=MB)
    await query(
        gateway.platform, created, "create table much as select repeat('x', 1000) from generate_series(1, 3000)"
    )
    await gateway.run_task(EnforceStorageLimits)
    roles = f"{project_path(created)}/branches/{created['branch']['id']}/roles"
    refusal = await send_request(gateway.platform, "POST", roles, status=422, body={"role": {"name": "late"}})
    assert refusal["code"] == "LOGICAL_SIZE_QUOTA_EXCEEDED"
    assert "exceeded the logical size quota of 1 MB" in refusal["message"]

"""What a plan allows to store and to transfer, as clients meet it: at direct and pooled hosts, to the end and back."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from bough import clock
from bough.config import DEFAULT_PLANS, Plan
from bough.control.gateway import allowances
from bough.control.platform.claim_links import sealing_purpose
from bough.domain.allowance import Fullness
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantDatabase
from bough.domain.organization import MemberRole, Organization
from bough.domain.user import OPERATOR
from bough.errors import RuleViolation
from bough.ids import BranchId, EndpointId, InstantId, OrganizationId, ProjectId
from bough.tasks.enforce_storage_limits import EnforceStorageLimits
from bough.tasks.enforce_transfer_limits import EnforceTransferLimits
from bough.tasks.measure_branches import MeasureBranches
from support import platform_gateway
from support.accounts import Account, add_member
from support.branches import create_branch, project_path, query, send_request, suspend_compute
from support.platform import API, Platform
from support.platform_gateway import ClientConnection, PlatformGateway

MB = 1024**2
PLANS = {
    **DEFAULT_PLANS,
    "small": Plan(storage_bytes=4 * MB),
    "thrifty": Plan(transfer_bytes=200_000),
    "unclaimed": Plan(storage_bytes=4 * MB, transfer_bytes=200_000),
}
FILL = "insert into much select repeat('x', 1000) from generate_series(1, {})"
WRITE = "insert into kept values (1)"
READ_WRITE_NEVER = "cannot set transaction read-write mode during recovery"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[PlatformGateway]:
    plans = {name: plan.model_dump() for name, plan in PLANS.items()}
    async with platform_gateway.open_platform_gateway(plans=plans, public_url="https://bough.example") as opened:
        yield opened


async def organization_on(platform: Platform, plan: str) -> OrganizationId:
    """One of the operator's, on a plan that only these settings have."""
    now, org_id = clock.now(), OrganizationId.new()
    made = Organization(
        id=org_id, name=plan, handle=org_id, plan=plan, personal_for=None, created_at=now, updated_at=now
    )
    async with platform.store.transaction() as rows:
        await rows.organizations.add(made)
        operator = await rows.users.get(OPERATOR)
    assert operator is not None
    await add_member(platform.services, made, Account(operator, made), MemberRole.ADMIN)
    return org_id


async def project_on(door: PlatformGateway, plan: str) -> dict[str, Any]:
    org_id = await organization_on(door.platform, plan)
    made = await door.platform.create_ready_project(org_id=org_id)
    await query(door.platform, made, "create table kept (n int)")
    await query(door.platform, made, "create table much (text text)")
    return made


async def give(door: PlatformGateway, made: dict[str, Any], plan: str) -> None:
    """To an organization on another plan."""
    own = (await send_request(door.platform, "GET", project_path(made)))["project"]["org_id"]
    body = {
        "destination_org_id": await organization_on(door.platform, plan),
        "project_ids": [made["project"]["id"]],
    }
    await send_request(door.platform, "POST", f"{API}/organizations/{own}/projects/transfer", body=body)


async def disown(door: PlatformGateway, made: dict[str, Any]) -> str:
    """As an instant database that nobody claimed; where it can be."""
    now, project_id, instant_id = clock.now(), ProjectId(made["project"]["id"]), InstantId.new()
    digest = door.platform.services.keys.digest(instant_id)
    sealed = door.platform.services.vault.seal(instant_id, sealing_purpose(digest))
    database = InstantDatabase(
        digest=digest,
        sealed_id=sealed,
        project_id=project_id,
        ref="test",
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(days=3),
    )
    async with door.platform.store.transaction() as rows:
        await rows.projects.set_organization([project_id], UNCLAIMED_ORGANIZATION, now)
        await rows.instant_databases.add(database)
    return f"https://bough.example/claim/{instant_id}"


async def fullness(door: PlatformGateway, made: dict[str, Any]) -> Fullness:
    async with door.platform.store.read() as rows:
        found = await rows.branches.get(ProjectId(made["branch"]["project_id"]), BranchId(made["branch"]["id"]))
    assert found is not None
    return found.fullness


async def refused(session: ClientConnection, statement: str = WRITE) -> str | None:
    """The hint that comes with the error."""
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as refusal:
        await session.execute(statement)
    return refusal.value.diag.message_hint


async def count(session: ClientConnection) -> int:
    row = await (await session.execute("select count(*) from kept")).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_full_database_is_read_only_until_it_has_room_again(gateway: PlatformGateway) -> None:
    made = await project_on(gateway, "small")
    direct, pooled = await gateway.connect(made), await gateway.connect(made, pooled=True)
    for session in (direct, pooled):
        await session.execute(WRITE)
        async with session.transaction():
            await session.execute("set transaction read only")
            assert await refused(session) is None, "one's own transaction, and there is room"
            await session.execute("rollback")
    await direct.execute(FILL.format(3700))
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.FULL
    later = await gateway.connect(made)
    for session in (direct, pooled, later):
        hint = await refused(session)
        assert hint == (
            "The branch is over the 4 MB storage limit of the plan small. Choose a larger plan, or free space: "
            "BEGIN READ WRITE; DELETE ...; COMMIT; and then VACUUM."
        )
        assert await count(session) == 2
    assert await gateway.run_task(EnforceStorageLimits) == "", "nothing changes while nothing is changed"
    await pooled.execute("begin read write")
    await pooled.execute("delete from much")
    await pooled.execute("commit")
    await direct.execute("vacuum much")
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.BELOW_LIMIT
    for session in (direct, pooled, later):
        await session.execute(WRITE)
        await session.execute("begin read only")
        assert await refused(session) is None
        await session.execute("rollback")
        await session.close()


async def test_one_that_is_far_over_its_limit_cannot_be_written_until_it_is_raised(gateway: PlatformGateway) -> None:
    made = await project_on(gateway, "small")
    branch = f"{project_path(made)}/branches/{made['branch']['id']}"
    async with await gateway.connect(made) as session:
        await session.execute(WRITE)
        await session.execute(FILL.format(6000))
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.OVERFULL
    for pooled in (False, True):
        async with await gateway.connect(made, pooled=pooled) as session:
            await session.execute("set default_transaction_read_only = off")
            hint = await refused(session)
            assert hint == (
                "The branch is over the 4 MB storage limit of the plan small. It is so far over it that no writes are "
                "possible until the project has a larger plan."
            )
            with pytest.raises(psycopg.errors.FeatureNotSupported, match=READ_WRITE_NEVER):
                await session.execute("begin read write")
            assert await count(session) == 1
    refusal = await send_request(
        gateway.platform, "POST", f"{branch}/roles", status=422, body={"role": {"name": "late"}}
    )
    assert refusal["code"] == "STORAGE_LIMIT_EXCEEDED"
    assert "far over the 4 MB storage limit" in refusal["message"]
    replica = {"endpoint": {"branch_id": made["branch"]["id"], "type": "read_only"}}
    await send_request(gateway.platform, "POST", f"{project_path(made)}/endpoints", status=422, body=replica)

    child = await create_branch(gateway.platform, made)
    assert await fullness(gateway, child) is Fullness.OVERFULL
    assert await query(gateway.platform, child, "select count(*) from kept") == 1
    await suspend_compute(gateway.platform, made)
    async with gateway.platform.background_runner(), await gateway.connect(made) as session:
        assert await refused(session) is not None
        await give(gateway, made, "unlimited")
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is await fullness(gateway, child) is Fullness.BELOW_LIMIT
    for each in (made, child):
        await query(gateway.platform, each, WRITE)
        assert await query(gateway.platform, each, "select count(*) from kept") == 2
        assert await query(gateway.platform, each, "select count(*) from much") == 6000


async def test_a_sleeping_branch_whose_limit_is_raised_wakes_without_any(gateway: PlatformGateway) -> None:
    made = await project_on(gateway, "small")
    async with await gateway.connect(made) as session:
        await session.execute(FILL.format(6000))
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.OVERFULL
    await suspend_compute(gateway.platform, made)
    await give(gateway, made, "unlimited")
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.BELOW_LIMIT
    async with gateway.platform.background_runner(), await gateway.connect(made) as session:
        await session.execute(WRITE)


async def test_what_grew_without_a_client_is_found_a_moment_later(gateway: PlatformGateway) -> None:
    made = await project_on(gateway, "small")
    for task in (EnforceStorageLimits, MeasureBranches):
        await gateway.run_task(task)
    await query(gateway.platform, made, FILL.format(3700))
    # A compute that nobody uses is measured again when it has taken processor time.
    await query(gateway.platform, made, "select count(*) from generate_series(1, 3000000)")
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.BELOW_LIMIT, "only those in use are measured again and again"
    await gateway.run_task(MeasureBranches)
    await gateway.run_task(EnforceStorageLimits)
    assert await fullness(gateway, made) is Fullness.FULL


async def test_who_transferred_all_is_not_let_in_until_the_month_or_the_plan_gives_more(
    gateway: PlatformGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await project_on(gateway, "thrifty")
    session, idle, wrong = await gateway.connect(made), await gateway.connect(made, pooled=True), {"password": "wrong"}
    await session.execute("select repeat('x', 250000)")
    assert "suspending 1 computes" in await gateway.run_task(EnforceTransferLimits)
    assert EndpointId(made["endpoints"][0]["id"]) not in (await gateway.platform.engine.observe()).running_endpoints
    with pytest.raises(psycopg.OperationalError):
        await session.execute("select 1")
    await session.close()
    with pytest.raises(psycopg.OperationalError, match="transferred"):
        await idle.execute("select 1")
    await idle.close()
    for pooled in (False, True):
        with pytest.raises(psycopg.OperationalError) as refusal:
            await gateway.connect(made, pooled=pooled)
        words = str(refusal.value)
        assert (
            "The project has transferred the 195.3 kB that the plan thrifty allows per month. The month ends" in words
        )
        for stranger in (wrong, {"user": "nobody"}, {"user": "nobody", **wrong}):
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                await gateway.connect(made, pooled=pooled, **stranger)
    start = f"{project_path(made)}/endpoints/{made['endpoints'][0]['id']}/start"
    refusal_of_api = await send_request(gateway.platform, "POST", start, status=422)
    assert refusal_of_api["code"] == "DATA_TRANSFER_LIMIT_EXCEEDED"
    with pytest.raises(RuleViolation, match="transferred"):
        await gateway.platform.inner.gateway_api.wakes.wake(EndpointId(made["endpoints"][0]["id"]))

    later = clock.now() + timedelta(days=31)
    with monkeypatch.context() as during:
        during.setattr(clock, "now", lambda: later)
        await gateway.run_task(EnforceTransferLimits)
        async with gateway.platform.background_runner(), await gateway.connect(made) as session:
            await session.execute("select repeat('x', 250000)")
        await gateway.run_task(EnforceTransferLimits)
        with pytest.raises(psycopg.OperationalError, match="transferred"):
            await gateway.connect(made)
        await give(gateway, made, "unlimited")
        await gateway.run_task(EnforceTransferLimits)
        async with gateway.platform.background_runner(), await gateway.connect(made) as session:
            await session.execute("select 1")


async def test_who_has_not_claimed_is_told_where_to(gateway: PlatformGateway) -> None:
    made = await project_on(gateway, "small")
    link = await disown(gateway, made)
    async with await gateway.connect(made) as session:
        await session.execute(FILL.format(3700))
        await gateway.run_task(EnforceStorageLimits)
        assert await refused(session) == (
            f"The database is over the 4 MB limit of unclaimed databases. Claim it to raise the limit: {link} - or "
            "free space: BEGIN READ WRITE; DELETE ...; COMMIT; and then VACUUM."
        )
        await session.execute("begin read write")
        await session.execute(FILL.format(2000))
        await session.execute("commit")
    await gateway.run_task(EnforceStorageLimits)
    async with await gateway.connect(made) as session:
        hint = await refused(session)
        assert hint is not None
        assert hint.endswith(f"no writes are possible until it is claimed: {link}")
        await session.execute("select repeat('x', 250000)")
    await gateway.run_task(EnforceTransferLimits)
    with pytest.raises(psycopg.OperationalError) as refusal:
        await gateway.connect(made)
    told = f"This database has transferred the 195.3 kB that unclaimed databases may. Claim it to continue: {link}"
    assert told in str(refusal.value)
    with pytest.raises(psycopg.OperationalError) as refusal:
        await gateway.connect(made, password="wrong")
    assert "claim" not in str(refusal.value)

    owner, now = await organization_on(gateway.platform, "free"), clock.now()
    async with gateway.platform.store.transaction() as rows:
        database = await rows.instant_databases.get_by_project(ProjectId(made["project"]["id"]))
        assert database is not None
        await rows.instant_databases.save(replace(database, claimed_by=OPERATOR, claimed_at=now))
        await rows.projects.set_organization([database.project_id], owner, now)
        await allowances.start_transfer_period(rows, database.project_id, now)
    await gateway.run_task(EnforceTransferLimits)
    await gateway.run_task(EnforceStorageLimits)
    async with gateway.platform.background_runner(), await gateway.connect(made) as session:
        await session.execute(WRITE)


async def test_what_deleted_endpoints_moved_counts_too(gateway: PlatformGateway) -> None:
    made = await project_on(gateway, "thrifty")
    child = await create_branch(gateway.platform, made)
    given = made["connection_uris"][0]["connection_parameters"]
    host = given["host"].replace(made["endpoints"][0]["id"], child["endpoints"][0]["id"])
    moved = {**made, "connection_uris": [{"connection_parameters": {**given, "host": host}}]}
    async with await gateway.connect(moved) as session:
        await session.execute("select repeat('x', 250000)")
    for rooms in gateway.gateway.worker_services:
        await rooms.activity.report()
    await send_request(gateway.platform, "DELETE", f"{project_path(made)}/branches/{child['branch']['id']}")
    await gateway.run_task(EnforceTransferLimits)
    with pytest.raises(psycopg.OperationalError, match="transferred"):
        await gateway.connect(made)

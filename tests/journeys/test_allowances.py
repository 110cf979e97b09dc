"""Storage and transfer limits of plans, as clients of direct and pooled hosts see them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from bough import clock
from bough.config import DEFAULT_PLANS, Plan
from bough.control.consumption import counting
from bough.control.platform.claim_links import sealing_purpose
from bough.domain.allowance import Fullness
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION, InstantDatabase
from bough.domain.organization import MemberRole, Organization
from bough.domain.user import OPERATOR
from bough.errors import RuleViolation
from bough.ids import BranchId, EndpointId, InstantId, OrganizationId, ProjectId
from bough.tasks.count_usage import CountUsage
from bough.tasks.enforce_quotas import EnforceQuotas
from bough.tasks.enforce_storage_limits import EnforceStorageLimits
from bough.tasks.measure_branches import MeasureBranches
from support import platform_gateway
from support.accounts import Account, add_member
from support.branches import create_branch, project_path, query, send_request, suspend_compute
from support.platform import API, Platform
from support.platform_gateway import ClientConnection, PlatformGateway
from support.replicas import wait_until_equal

MB = 1024**2
PLANS = {
    **DEFAULT_PLANS,
    "small": Plan(storage_bytes=4 * MB),
    "thrifty": Plan(transfer_bytes=200_000),
    "unclaimed": Plan(storage_bytes=4 * MB, transfer_bytes=200_000),
}
FILL = "insert into much select repeat('x', 1000) from generate_series(1, {})"
WRITE = "insert into kept values (1)"
READ_WRITE_REFUSED = "cannot set transaction read-write mode during recovery"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[PlatformGateway]:
    plans = {name: plan.model_dump() for name, plan in PLANS.items()}
    async with platform_gateway.open_platform_gateway(plans=plans, public_url="https://bough.example") as opened:
        yield opened


async def create_organization(platform: Platform, plan: str) -> OrganizationId:
    """Creates an organization of the operator on a plan of these settings."""
    now, org_id = clock.now(), OrganizationId.new()
    organization = Organization(
        id=org_id, name=plan, handle=org_id, plan=plan, personal_for=None, created_at=now, updated_at=now
    )
    async with platform.store.transaction() as rows:
        await rows.organizations.add(organization)
        operator = await rows.users.get(OPERATOR)
    assert operator is not None
    await add_member(platform.services, organization, Account(operator, organization), MemberRole.ADMIN)
    return org_id


async def create_project_on_plan(gateway: PlatformGateway, plan: str) -> dict[str, Any]:
    org_id = await create_organization(gateway.platform, plan)
    created = await gateway.platform.create_ready_project(org_id=org_id)
    await query(gateway.platform, created, "create table kept (n int)")
    await query(gateway.platform, created, "create table much (text text)")
    return created


async def move_to_plan(gateway: PlatformGateway, created: dict[str, Any], plan: str) -> None:
    """Transfers the project to a new organization on another plan."""
    org_id = (await send_request(gateway.platform, "GET", project_path(created)))["project"]["org_id"]
    body = {
        "destination_org_id": await create_organization(gateway.platform, plan),
        "project_ids": [created["project"]["id"]],
    }
    await send_request(gateway.platform, "POST", f"{API}/organizations/{org_id}/projects/transfer", body=body)


async def make_unclaimed(gateway: PlatformGateway, created: dict[str, Any]) -> str:
    """Turns the project into an unclaimed instant database. Returns its claim URL."""
    now, project_id, instant_id = clock.now(), ProjectId(created["project"]["id"]), InstantId.new()
    digest = gateway.platform.services.keys.digest(instant_id)
    sealed = gateway.platform.services.vault.seal(instant_id, sealing_purpose(digest))
    database = InstantDatabase(
        digest=digest,
        sealed_id=sealed,
        project_id=project_id,
        ref="test",
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(days=3),
    )
    async with gateway.platform.store.transaction() as rows:
        await counting.count(rows, now, project_id=project_id)
        await rows.projects.set_organization([project_id], UNCLAIMED_ORGANIZATION, now)
        await counting.follow_terms(rows, now, [project_id])
        await rows.instant_databases.add(database)
    return f"https://bough.example/claim/{instant_id}"


async def get_fullness(gateway: PlatformGateway, created: dict[str, Any]) -> Fullness:
    async with gateway.platform.store.read() as rows:
        found = await rows.branches.get(ProjectId(created["branch"]["project_id"]), BranchId(created["branch"]["id"]))
    assert found is not None
    return found.fullness


async def get_refusal_hint(session: ClientConnection, statement: str = WRITE) -> str | None:
    """Returns the hint of the error with which Postgres refuses the statement."""
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction) as refusal:
        await session.execute(statement)
    return refusal.value.diag.message_hint


async def wait_until_read_only(session: ClientConnection, is_read_only: bool) -> None:
    """A reload changes the default of open sessions. Its signal may arrive shortly after the reload returns."""

    async def read_default() -> str:
        row = await (await session.execute("show default_transaction_read_only")).fetchone()
        return str(row[0]) if row else ""

    await wait_until_equal(read_default, "on" if is_read_only else "off")


async def count_rows(session: ClientConnection) -> int:
    row = await (await session.execute("select count(*) from kept")).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_full_database_is_read_only_until_it_has_room_again(gateway: PlatformGateway) -> None:
    created = await create_project_on_plan(gateway, "small")
    direct, pooled = await gateway.connect(created), await gateway.connect(created, pooled=True)
    for session in (direct, pooled):
        await session.execute(WRITE)
        async with session.transaction():
            await session.execute("set transaction read only")
            assert await get_refusal_hint(session) is None, (
                "the client itself made the transaction read-only, and the branch is below its limit"
            )
            await session.execute("rollback")
    await direct.execute(FILL.format(3700))
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.FULL
    later = await gateway.connect(created)
    for session in (direct, pooled, later):
        await wait_until_read_only(session, True)
        hint = await get_refusal_hint(session)
        assert hint == (
            "The branch is over the 4 MB storage limit of the plan small. Choose a larger plan, or free space: "
            "BEGIN READ WRITE; DELETE ...; COMMIT; and then VACUUM."
        )
        assert await count_rows(session) == 2
    assert await gateway.run_task(EnforceStorageLimits) == "", "the task repeats nothing while the state is unchanged"
    await pooled.execute("begin read write")
    await pooled.execute("delete from much")
    await pooled.execute("commit")
    await direct.execute("vacuum much")
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.BELOW_LIMIT
    for session in (direct, pooled, later):
        await wait_until_read_only(session, False)
        await session.execute(WRITE)
        await session.execute("begin read only")
        assert await get_refusal_hint(session) is None
        await session.execute("rollback")
        await session.close()


async def test_one_that_is_far_over_its_limit_cannot_be_written_until_it_is_raised(gateway: PlatformGateway) -> None:
    created = await create_project_on_plan(gateway, "small")
    branch = f"{project_path(created)}/branches/{created['branch']['id']}"
    async with await gateway.connect(created) as session:
        await session.execute(WRITE)
        await session.execute(FILL.format(6000))
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.OVERFULL
    for pooled in (False, True):
        async with await gateway.connect(created, pooled=pooled) as session:
            await session.execute("set default_transaction_read_only = off")
            hint = await get_refusal_hint(session)
            assert hint == (
                "The branch is over the 4 MB storage limit of the plan small. It is more than 20 % over the limit and "
                "cannot be written to until the plan is larger."
            )
            with pytest.raises(psycopg.errors.FeatureNotSupported, match=READ_WRITE_REFUSED):
                await session.execute("begin read write")
            assert await count_rows(session) == 1
    refusal = await send_request(
        gateway.platform, "POST", f"{branch}/roles", status=422, body={"role": {"name": "late"}}
    )
    assert refusal["code"] == "STORAGE_LIMIT_EXCEEDED"
    assert "far over the 4 MB storage limit" in refusal["message"]
    replica = {"endpoint": {"branch_id": created["branch"]["id"], "type": "read_only"}}
    await send_request(gateway.platform, "POST", f"{project_path(created)}/endpoints", status=422, body=replica)

    child = await create_branch(gateway.platform, created)
    assert await get_fullness(gateway, child) is Fullness.OVERFULL
    assert await query(gateway.platform, child, "select count(*) from kept") == 1
    await suspend_compute(gateway.platform, created)
    async with gateway.platform.background_runner(), await gateway.connect(created) as session:
        assert await get_refusal_hint(session) is not None
        await move_to_plan(gateway, created, "unlimited")
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is await get_fullness(gateway, child) is Fullness.BELOW_LIMIT
    for branch_response in (created, child):
        await query(gateway.platform, branch_response, WRITE)
        assert await query(gateway.platform, branch_response, "select count(*) from kept") == 2
        assert await query(gateway.platform, branch_response, "select count(*) from much") == 6000


async def test_a_sleeping_branch_whose_limit_is_raised_wakes_without_any(gateway: PlatformGateway) -> None:
    created = await create_project_on_plan(gateway, "small")
    async with await gateway.connect(created) as session:
        await session.execute(FILL.format(6000))
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.OVERFULL
    await suspend_compute(gateway.platform, created)
    await move_to_plan(gateway, created, "unlimited")
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.BELOW_LIMIT
    async with gateway.platform.background_runner(), await gateway.connect(created) as session:
        await session.execute(WRITE)


async def test_what_grew_without_a_client_is_found_a_moment_later(gateway: PlatformGateway) -> None:
    created = await create_project_on_plan(gateway, "small")
    for task in (EnforceStorageLimits, MeasureBranches):
        await gateway.run_task(task)
    await query(gateway.platform, created, FILL.format(3700))
    # A compute without clients is measured again only after it has used CPU time.
    await query(gateway.platform, created, "select count(*) from generate_series(1, 3000000)")
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.BELOW_LIMIT, (
        "only computes with clients are measured every time"
    )
    await gateway.run_task(MeasureBranches)
    await gateway.run_task(EnforceStorageLimits)
    assert await get_fullness(gateway, created) is Fullness.FULL


async def test_who_transferred_all_is_not_let_in_until_the_month_or_the_plan_gives_more(
    gateway: PlatformGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await create_project_on_plan(gateway, "thrifty")
    session, idle = await gateway.connect(created), await gateway.connect(created, pooled=True)
    wrong = {"password": "wrong"}
    await session.execute("select repeat('x', 250000)")
    assert "suspending 1 computes" in await gateway.run_task(EnforceQuotas)
    assert EndpointId(created["endpoints"][0]["id"]) not in (await gateway.platform.engine.observe()).running_endpoints
    with pytest.raises(psycopg.OperationalError):
        await session.execute("select 1")
    await session.close()
    with pytest.raises(psycopg.OperationalError, match="transferred"):
        await idle.execute("select 1")
    await idle.close()
    for pooled in (False, True):
        with pytest.raises(psycopg.OperationalError) as refusal:
            await gateway.connect(created, pooled=pooled)
        message = str(refusal.value)
        assert (
            "The project has transferred the 195.3 kB that the plan thrifty allows per month. The month ends" in message
        )
        for login in (wrong, {"user": "nobody"}, {"user": "nobody", **wrong}):
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                await gateway.connect(created, pooled=pooled, **login)
    start = f"{project_path(created)}/endpoints/{created['endpoints'][0]['id']}/start"
    refusal_of_api = await send_request(gateway.platform, "POST", start, status=422)
    assert refusal_of_api["code"] == "DATA_TRANSFER_LIMIT_EXCEEDED"
    with pytest.raises(RuleViolation, match="transferred"):
        await gateway.platform.inner.gateway_api.wakes.wake(EndpointId(created["endpoints"][0]["id"]))

    await gateway.run_task(CountUsage)
    later = clock.now() + timedelta(days=31)
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: later)
        await gateway.run_task(EnforceQuotas)
        async with gateway.platform.background_runner(), await gateway.connect(created) as session:
            await session.execute("select repeat('x', 250000)")
        await gateway.run_task(EnforceQuotas)
        with pytest.raises(psycopg.OperationalError, match="transferred"):
            await gateway.connect(created)
        await move_to_plan(gateway, created, "unlimited")
        await gateway.run_task(EnforceQuotas)
        async with gateway.platform.background_runner(), await gateway.connect(created) as session:
            await session.execute("select 1")


async def test_who_has_not_claimed_is_told_where_to(gateway: PlatformGateway) -> None:
    created = await create_project_on_plan(gateway, "small")
    link = await make_unclaimed(gateway, created)
    async with await gateway.connect(created) as session:
        await session.execute(FILL.format(3700))
        await gateway.run_task(EnforceStorageLimits)
        assert await get_refusal_hint(session) == (
            f"The database is over the 4 MB limit of unclaimed databases. Claim it to raise the limit: {link} - or "
            "free space: BEGIN READ WRITE; DELETE ...; COMMIT; and then VACUUM."
        )
        await session.execute("begin read write")
        await session.execute(FILL.format(2000))
        await session.execute("commit")
    await gateway.run_task(EnforceStorageLimits)
    async with await gateway.connect(created) as session:
        hint = await get_refusal_hint(session)
        assert hint is not None
        assert hint.endswith(f"and cannot be written to until it is claimed: {link}")
        await session.execute("select repeat('x', 250000)")
    await gateway.run_task(EnforceQuotas)
    with pytest.raises(psycopg.OperationalError) as refusal:
        await gateway.connect(created)
    message = (
        f"This database has reached the 195.3 kB transfer limit of unclaimed databases. Claim it to continue: {link}"
    )
    assert message in str(refusal.value)
    with pytest.raises(psycopg.OperationalError) as refusal:
        await gateway.connect(created, password="wrong")
    assert "claim" not in str(refusal.value)

    owner, now = await create_organization(gateway.platform, "free"), clock.now()
    async with gateway.platform.store.transaction() as rows:
        database = await rows.instant_databases.get_by_project(ProjectId(created["project"]["id"]))
        assert database is not None
        await rows.instant_databases.save(replace(database, claimed_by=OPERATOR, claimed_at=now))
        await counting.count(rows, now, project_id=database.project_id)
        await rows.projects.set_organization([database.project_id], owner, now)
        await counting.follow_terms(rows, now, [database.project_id])
    await gateway.run_task(EnforceQuotas)
    await gateway.run_task(EnforceStorageLimits)
    async with gateway.platform.background_runner(), await gateway.connect(created) as session:
        await session.execute(WRITE)


async def test_what_deleted_endpoints_moved_counts_too(gateway: PlatformGateway) -> None:
    created = await create_project_on_plan(gateway, "thrifty")
    child = await create_branch(gateway.platform, created)
    parameters = created["connection_uris"][0]["connection_parameters"]
    host = parameters["host"].replace(created["endpoints"][0]["id"], child["endpoints"][0]["id"])
    child_login = {**created, "connection_uris": [{"connection_parameters": {**parameters, "host": host}}]}
    async with await gateway.connect(child_login) as session:
        await session.execute("select repeat('x', 250000)")
    for services in gateway.gateway.worker_services:
        await services.activity.report()
    await send_request(gateway.platform, "DELETE", f"{project_path(created)}/branches/{child['branch']['id']}")
    await gateway.run_task(EnforceQuotas)
    with pytest.raises(psycopg.OperationalError, match="transferred"):
        await gateway.connect(created)

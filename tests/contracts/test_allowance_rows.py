"""Storage of branches and transfer of projects: the rows, in both back ends."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from bough.control.consumption import counting
from bough.domain.allowance import Fullness
from bough.domain.branch import Volume
from bough.domain.endpoint import EndpointState, EndpointType
from bough.domain.instant_database import UNCLAIMED_ORGANIZATION
from bough.domain.quota import Limit, PeriodUsage
from bough.domain.usage import EndpointTraffic
from bough.ids import EndpointId, ProjectId
from bough.store.allowances import BranchStorage, PlanTerms
from bough.store.store import Store
from support.stores import NOON, ORGANIZATION, add_project, make_branch, make_endpoint, make_project

DAY = timedelta(days=1)
LATER = datetime(2031, 3, 4, 5, 6, tzinfo=UTC)  # after the migration, with which counting begins


async def add_transfer(store: Store, endpoint: EndpointId, count: int) -> None:
    async with store.transaction() as rows:
        await rows.usage.add_traffic(
            EndpointTraffic(endpoint_id=endpoint, bytes_in=7, bytes_out=count, connections_opened=1)
        )


async def test_a_branch_without_room_is_found_with_its_terms_and_its_writer(store: Store) -> None:
    project = make_project()
    branch, endpoint = await add_project(store, project)
    async with store.transaction() as rows:
        assert await rows.allowances.list_full() == []
        await rows.allowances.set_fullness(branch.id, Fullness.OVERFULL, 2**41)
        organization = await rows.organizations.get(project.org_id)
    assert organization is not None
    expected = BranchStorage(
        project_id=project.id,
        org_id=project.org_id,
        plan=organization.plan,
        branch_id=branch.id,
        fullness=Fullness.OVERFULL,
        stored_bytes=2**41,
        settings=project.settings,
        writer_id=None,
    )
    async with store.transaction() as rows:
        assert await rows.allowances.list_full() == [expected], "it is not running"
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE))
        replica = make_endpoint(branch, type=EndpointType.READ_ONLY, state=EndpointState.ACTIVE)
        await rows.endpoints.add(replica)
    running = replace(expected, writer_id=endpoint.id)
    async with store.read() as rows:
        assert await rows.allowances.list_full() == [running]
        assert await rows.allowances.get_by_branch(branch.id) == running
        found = await rows.branches.get(project.id, branch.id)
    assert found == replace(branch, fullness=Fullness.OVERFULL, stored_bytes=2**41)
    async with store.transaction() as rows:
        await rows.branches.save(replace(branch, deleted_at=NOON))
        assert await rows.allowances.list_full() == []
        assert await rows.allowances.get_by_branch(branch.id) is None


async def test_the_door_is_told_of_what_can_be_written_through_it(store: Store) -> None:
    project = make_project()
    branch, endpoint = await add_project(store, project)
    replica = make_endpoint(branch, type=EndpointType.READ_ONLY)
    async with store.transaction() as rows:
        await rows.endpoints.add(replica)
        before = await rows.roles.get_endpoint_access(endpoint.id, "nobody")
        await rows.allowances.set_fullness(branch.id, Fullness.FULL, 1)
        await rows.project_limits.save(project.id, Limit.PLAN_TRANSFER, {}, NOON)
        after = await rows.roles.get_endpoint_access(endpoint.id, "nobody")
        of_replica = await rows.roles.get_endpoint_access(replica.id, "nobody")
        organization = await rows.organizations.get(project.org_id)
    assert before is not None
    assert after is not None
    assert of_replica is not None
    assert organization is not None
    assert (before.fullness, before.reached_limit) == (Fullness.BELOW_LIMIT, None)
    assert (after.fullness, after.reached_limit) == (Fullness.FULL, Limit.PLAN_TRANSFER)
    assert (of_replica.fullness, of_replica.reached_limit) == (Fullness.BELOW_LIMIT, Limit.PLAN_TRANSFER)
    assert after.terms == PlanTerms(project_id=project.id, org_id=project.org_id, plan=organization.plan)


async def test_a_project_used_what_all_its_endpoints_did(store: Store) -> None:
    project, other = make_project(), make_project(1)
    _, endpoint = await add_project(store, project)
    await add_project(store, other)
    gone = make_branch(project, name="gone", is_default=False, deleted_at=NOON)
    deleted = make_endpoint(gone, deleted_at=NOON)
    async with store.transaction() as rows:
        await rows.lineages.add_volume(Volume(id=gone.volume_id, project_id=project.id, created_at=NOON))
        await rows.branches.add(gone)
        await rows.endpoints.add(deleted)
    await add_transfer(store, endpoint.id, 2**41)
    await add_transfer(store, deleted.id, 5)
    async with store.transaction() as rows:
        assert await rows.allowances.list_projects_of([endpoint.id, deleted.id, EndpointId.new()]) == {project.id}
        uncounted = await rows.project_limits.list_used([project.id, other.id, ProjectId.new()], LATER)
        await counting.count(rows, LATER)
        counted = await rows.project_limits.list_used([project.id, other.id], LATER)
        later = await rows.project_limits.list_used([project.id], LATER + 31 * DAY)
    assert counted == uncounted
    used = {each.project_id: (each.usage, each.sent_bytes) for each in counted}
    assert used == {project.id: (PeriodUsage(bytes_out=2**41 + 5), 2**41 + 5), other.id: (PeriodUsage(), 0)}
    assert [(each.usage, each.sent_bytes) for each in later] == [(PeriodUsage(), 2**41 + 5)]


async def test_what_was_used_before_a_claim_does_not_count_afterwards(store: Store) -> None:
    project = make_project(org_id=UNCLAIMED_ORGANIZATION)
    _, endpoint = await add_project(store, project)
    await add_transfer(store, endpoint.id, 100)
    async with store.transaction() as rows:
        await counting.count(rows, LATER)
        await rows.projects.set_organization([project.id], ORGANIZATION, LATER)
        await counting.follow_terms(rows, LATER, [project.id])
        (claimed,) = await rows.project_limits.list_used([project.id], LATER)
    assert (claimed.usage, claimed.sent_bytes) == (PeriodUsage(), 100)


async def test_a_reached_limit_is_kept_and_found(store: Store) -> None:
    project = make_project()
    _, endpoint = await add_project(store, project)
    limits = {"active_time_seconds": 80, "logical_size_bytes/br-one": 100}
    async with store.transaction() as rows:
        await rows.project_limits.save(project.id, None, limits, NOON)
        assert await rows.project_limits.list_reached() == []
        assert await rows.project_limits.get_reached(project.id) is None
        await rows.project_limits.save(project.id, Limit.ACTIVE_TIME, limits, NOON)
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE, pending_state=None))
        (found,) = await rows.project_limits.list_used([project.id], NOON)
        reached = await rows.project_limits.get_reached(project.id)
        assert await rows.project_limits.list_reached() == [project.id]
        assert [each.id for each in await rows.project_limits.list_running()] == [endpoint.id]
        assert await rows.project_limits.list_running(ProjectId.new()) == []
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE, pending_state=EndpointState.IDLE))
        assert await rows.project_limits.list_running() == [], "it is being suspended already"
    assert (found.reached, found.warnings, found.period_start, found.name) == (
        Limit.ACTIVE_TIME,
        limits,
        NOON,
        project.name,
    )
    assert reached is not None
    assert (reached.reached, reached.settings) == (Limit.ACTIVE_TIME, project.settings)


async def test_projects_with_a_quota_are_found(store: Store) -> None:
    limited, unlimited, deleted = make_project(), make_project(1, settings={}), make_project(2, deleted_at=NOON)
    for project in (limited, unlimited, deleted):
        _, endpoint = await add_project(store, project)
        await add_transfer(store, endpoint.id, 1)
    async with store.transaction() as rows:
        assert await rows.project_limits.list_with_quota() == [limited.id]
        assert await rows.project_limits.list_in_use_with_quota() == [limited.id]
        await counting.count(rows, LATER)
        assert await rows.project_limits.list_in_use_with_quota() == []


async def test_the_admins_of_an_organization_have_addresses(store: Store) -> None:
    async with store.read() as rows:
        assert [each.email for each in await rows.members.list_admins(ORGANIZATION)] == ["operator@bough.localhost"]

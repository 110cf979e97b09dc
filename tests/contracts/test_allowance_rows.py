"""Storage of branches and transfer of projects: the rows, in both back ends."""

from dataclasses import replace
from datetime import timedelta

from bough.control.gateway.allowances import start_transfer_period
from bough.domain.allowance import DataTransferPeriod, Fullness
from bough.domain.branch import Volume
from bough.domain.endpoint import EndpointState, EndpointType
from bough.domain.usage import EndpointTraffic
from bough.ids import EndpointId, ProjectId
from bough.store.allowances import BranchStorage, PlanTerms
from bough.store.store import Store
from support.stores import NOON, add_project, make_branch, make_endpoint, make_project

MINUTE = timedelta(minutes=1)


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
        await rows.allowances.save_period(
            DataTransferPeriod(project_id=project.id, began_at=NOON, bytes_before=0, is_limit_reached=True)
        )
        after = await rows.roles.get_endpoint_access(endpoint.id, "nobody")
        of_replica = await rows.roles.get_endpoint_access(replica.id, "nobody")
        organization = await rows.organizations.get(project.org_id)
    assert before is not None
    assert after is not None
    assert of_replica is not None
    assert organization is not None
    assert (before.fullness, before.has_reached_transfer_limit) == (Fullness.BELOW_LIMIT, False)
    assert (after.fullness, after.has_reached_transfer_limit) == (Fullness.FULL, True)
    assert (of_replica.fullness, of_replica.has_reached_transfer_limit) == (Fullness.BELOW_LIMIT, True)
    assert after.terms == PlanTerms(project_id=project.id, org_id=project.org_id, plan=organization.plan)


async def test_a_project_transferred_what_all_its_endpoints_did_since_it_was_made(store: Store) -> None:
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
    async with store.read() as rows:
        assert await rows.allowances.list_projects_of([endpoint.id, deleted.id, EndpointId.new()]) == {project.id}
        found = await rows.allowances.get_data_transfer(project.id)
        assert await rows.allowances.get_data_transfer(ProjectId.new()) is None
        both = await rows.allowances.list_data_transfers([project.id, other.id, ProjectId.new()])
    assert found is not None
    assert (found.transferred_bytes, found.period, found.created_at) == (2**41 + 5, None, project.created_at)
    assert {each.project_id: each.transferred_bytes for each in both} == {project.id: 2**41 + 5, other.id: 0}


async def test_a_period_is_kept_begun_anew_and_found_when_it_is_over(store: Store) -> None:
    project = make_project()
    _, endpoint = await add_project(store, project)
    await add_transfer(store, endpoint.id, 100)
    over = DataTransferPeriod(project_id=project.id, began_at=NOON, bytes_before=3, is_limit_reached=True)
    async with store.transaction() as rows:
        await rows.allowances.save_period(replace(over, is_limit_reached=False))
        assert await rows.allowances.list_over_transfer_limit() == []
        assert await rows.allowances.get_terms_if_over_limit(project.id) is None
        await rows.allowances.save_period(over)
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE, pending_state=None))
    async with store.read() as rows:
        found = await rows.allowances.get_data_transfer(project.id)
        terms = await rows.allowances.get_terms_if_over_limit(project.id)
        assert await rows.allowances.list_over_transfer_limit() == [project.id]
        assert await rows.allowances.list_running_over_limit() == [endpoint.id]
    assert found is not None
    assert terms is not None
    assert found.period == over
    assert terms.project_id == project.id
    async with store.transaction() as rows:
        await rows.endpoints.save(replace(endpoint, state=EndpointState.ACTIVE, pending_state=EndpointState.IDLE))
        assert await rows.allowances.list_running_over_limit() == [], "it is being suspended already"
        await start_transfer_period(rows, project.id, NOON + MINUTE)
        assert await rows.allowances.list_over_transfer_limit() == []
        found = await rows.allowances.get_data_transfer(project.id)
    assert found is not None
    assert found.period == DataTransferPeriod(project_id=project.id, began_at=NOON + MINUTE, bytes_before=100)

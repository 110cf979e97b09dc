"""Planned maintenance in the store, on both back ends."""

from dataclasses import replace
from datetime import timedelta

from bough.domain.endpoint import EndpointType
from bough.domain.maintenance import Maintenance
from bough.domain.operation import OperationStatus
from bough.domain.user import OPERATOR
from bough.ids import VolumeId
from bough.store.store import Store
from support.stores import NOON, ORGANIZATION, add_project, make_endpoint, make_operation, make_project


async def test_planned_maintenance_is_listed_by_its_time(store: Store) -> None:
    later, sooner, done, deleted = [make_project(minute) for minute in range(4)]
    async with store.transaction() as rows:
        for project in (later, sooner, done, deleted):
            await rows.projects.add(project)
    hours = {later.id: 5, sooner.id: 3, done.id: None, deleted.id: 1}
    plans = {
        project: Maintenance(
            project_id=project,
            scheduled_for=None if number is None else NOON + timedelta(hours=number),
            ends_at=None if number is None else NOON + timedelta(hours=number + 1),
            noticed_at=NOON,
            reasons={"ep-one": {"reasons": ["build"]}},
            outcome={"restarted": ["ep-one"]},
        )
        for project, number in hours.items()
    }
    async with store.transaction() as rows:
        for plan in plans.values():
            await rows.maintenance.save(plan)
        await rows.projects.save(replace(deleted, deleted_at=NOON))
    async with store.transaction() as rows:
        changed = replace(plans[later.id], missed_windows=1)
        await rows.maintenance.save(changed)
    async with store.read() as rows:
        assert await rows.maintenance.get(done.id) == plans[done.id]
        assert await rows.maintenance.get(later.id) == changed
        assert await rows.maintenance.list_planned() == [plans[sooner.id], changed]
        shown = await rows.project_pages.get(sooner.id)
    assert shown is not None
    assert shown.maintenance_scheduled_for == NOON + timedelta(hours=3)
    async with store.transaction() as rows:
        await rows.projects.purge(sooner.id, NOON)
    async with store.read() as rows:
        assert await rows.maintenance.get(sooner.id) is None


async def test_open_operations_of_a_request_are_found_in_all_projects(store: Store) -> None:
    one, two = make_project(1), make_project(2)
    for project in (one, two):
        await add_project(store, project)
    mine = [make_operation(each.id, request_id="maintenance") for each in (one, two)]
    ended = make_operation(one.id, request_id="maintenance", status=OperationStatus.FINISHED, ended_at=NOON)
    async with store.transaction() as rows:
        for operation in (*mine, ended, make_operation(one.id, request_id="wake")):
            await rows.operations.add(operation)
    async with store.read() as rows:
        found = await rows.operations.list_open_of_request("maintenance")
    assert {each.id for each in found} == {each.id for each in mine}


async def test_admins_and_the_replica_of_a_volume_are_found(store: Store) -> None:
    project, volume = make_project(), VolumeId.new()
    branch, _ = await add_project(store, project)
    replica = make_endpoint(branch, type=EndpointType.READ_ONLY, volume_id=volume)
    async with store.transaction() as rows:
        await rows.endpoints.add(replica)
    async with store.read() as rows:
        assert await rows.endpoints.find_by_volume(volume) == replica
        assert await rows.endpoints.find_by_volume(VolumeId.new()) is None
        assert [admin.id for admin in await rows.members.list_admins(ORGANIZATION)] == [OPERATOR]

"""Unused branches are archived automatically, and restored automatically when a client connects."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from bough.domain.branch import BranchState
from bough.domain.operation import OperationKind, OperationStatus
from bough.errors import Unavailable
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.audit import AuditQuery
from bough.tasks.archive_branches import ArchiveBranches
from journeys.platform_actions import add_replica, wake
from support.branches import create_branch, project_path, query, send_request, shift_clock, suspend_compute
from support.platform import Platform, open_platform

Json = dict[str, Any]


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    async with open_platform() as opened:
        yield opened


async def archive_after_two_weeks(platform: Platform) -> str:
    """Runs the task as if two weeks had passed, and then its operations. Returns the summary of the task."""
    task = ArchiveBranches(platform.settings, platform.store, platform.engine, platform.services.queue)
    with shift_clock(timedelta(days=14)):
        summary = await task.run()
    await platform.run_operations()
    return summary


async def get_states(platform: Platform, created: Json) -> dict[str, BranchState]:
    async with platform.store.read() as rows:
        found = await rows.branches.list_in_project(ProjectId(created["project"]["id"]))
    return {branch.name: branch.state for branch in found}


async def create_suspended_branches(platform: Platform) -> tuple[Json, Json, Json]:
    """Creates a project with a root branch, a child and a grandchild with a table. All computes are suspended."""
    created = await platform.create_ready_project()
    parent = await create_branch(platform, created, name="parent", endpoint=False)
    child = await create_branch(platform, parent, name="child")
    await query(platform, child, "create table kept as select generate_series(1, 1000) as n")
    await suspend_compute(platform, child)
    await suspend_compute(platform, created)
    return created, parent, child


async def test_those_that_nobody_uses_go_children_first_and_come_back_for_who_connects(platform: Platform) -> None:
    created, _, child = await create_suspended_branches(platform)
    assert await archive_after_two_weeks(platform) == "archiving 1 unused branches"
    assert await get_states(platform, created) == {
        "main": BranchState.READY,
        "parent": BranchState.READY,
        "child": BranchState.ARCHIVED,
    }
    assert await archive_after_two_weeks(platform) == "archiving 1 unused branches"
    assert await archive_after_two_weeks(platform) == ""
    assert set((await get_states(platform, created)).values()) == {BranchState.READY, BranchState.ARCHIVED}
    listed = await send_request(platform, "GET", f"{project_path(created)}/operations")
    assert [each["action"] for each in listed["operations"]].count("timeline_archive") == 2
    response = await send_request(platform, "GET", f"{project_path(created)}/branches/{child['branch']['id']}")
    assert response["branch"]["current_state"] == "archived"
    async with platform.store.read() as rows:
        audit_query = AuditQuery(project_id=created["project"]["id"], action="archive_branch")
        audit_records = await rows.audit.page(audit_query, 10, None)
    assert {record.details["name"] for record in audit_records} == {"parent", "child"}

    await wake(platform, child["endpoints"][0]["id"])
    assert await query(platform, child, "select count(*) from kept") == 1000
    await platform.run_operations()
    assert set((await get_states(platform, created)).values()) == {BranchState.READY}, "the ancestors are restored too"
    kinds = [each.kind for each in await platform.list_operations(created["project"]["id"])]
    assert kinds.count(OperationKind.UNARCHIVE_BRANCH) == 2
    assert await archive_after_two_weeks(platform) == "", "its compute is running"


async def test_roles_and_children_can_be_made_of_it_and_it_goes_again(platform: Platform) -> None:
    created, _, child = await create_suspended_branches(platform)
    await archive_after_two_weeks(platform)
    path = f"{project_path(created)}/branches/{child['branch']['id']}"
    await send_request(platform, "POST", f"{path}/roles", status=201, body={"role": {"name": "app"}})
    await platform.run_operations()
    await archive_after_two_weeks(platform)
    grandchild = await create_branch(platform, child, name="grandchild")
    assert await query(platform, grandchild, "select count(*) from kept") == 1000
    assert await query(platform, grandchild, "select 1", role="app") == 1
    statuses = {each.status for each in await platform.list_operations(created["project"]["id"])}
    assert statuses <= {OperationStatus.FINISHED, OperationStatus.SKIPPED}


async def test_the_copies_of_its_replicas_go_and_are_made_again(platform: Platform) -> None:
    created, _, child = await create_suspended_branches(platform)
    replica = await add_replica(platform, child)
    await send_request(platform, "POST", f"{project_path(created)}/endpoints/{replica}/suspend")
    await platform.run_operations()
    before = (await platform.engine.observe()).volumes
    await archive_after_two_weeks(platform)
    async with platform.store.read() as rows:
        endpoint = await rows.endpoints.get(EndpointId(replica))
        branch = await rows.branches.get(ProjectId(created["project"]["id"]), BranchId(child["branch"]["id"]))
    assert endpoint is not None
    assert branch is not None
    assert branch.state is BranchState.ARCHIVED
    assert before - (await platform.engine.observe()).volumes == {endpoint.volume_id}
    await wake(platform, replica)
    async with platform.connect(replica, "neondb_owner", "neondb") as client:
        assert await client.fetchval("select count(*) from kept") == 1000


async def test_a_pack_that_cannot_be_read_keeps_nobody_waiting(platform: Platform) -> None:
    created, _, child = await create_suspended_branches(platform)
    await archive_after_two_weeks(platform)
    async with platform.store.read() as rows:
        branch = await rows.branches.get(ProjectId(created["project"]["id"]), BranchId(child["branch"]["id"]))
    assert branch
    pack = platform.settings.home / "volumes" / branch.volume_id / "data.pack"
    original_bytes = pack.read_bytes()
    pack.write_bytes(original_bytes[:-50])
    with pytest.raises(Unavailable, match="restore it from a backup"):
        await wake(platform, child["endpoints"][0]["id"])
    pack.write_bytes(original_bytes)
    await wake(platform, child["endpoints"][0]["id"])
    assert await query(platform, child, "select count(*) from kept") == 1000

"""Branches that nobody uses are put away by themselves, and come back by themselves when somebody does."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from bough.domain.branch import BranchState
from bough.domain.operation import OperationAction, OperationStatus
from bough.errors import Unavailable
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.audit import AuditQuery
from bough.tasks.archive_branches import ArchiveBranches
from support.branches import create_branch, project_path, query, send_request, shift_clock, suspend_compute
from support.platform import Platform, open_platform

Json = dict[str, Any]


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    async with open_platform() as made:
        yield made


async def two_weeks_pass(platform: Platform) -> str:
    """What the task says; its work is done."""
    task = ArchiveBranches(platform.settings, platform.store, platform.engine, platform.services.queue)
    with shift_clock(timedelta(days=14)):
        said = await task.run()
    await platform.run_operations()
    return said


async def states(platform: Platform, made: Json) -> dict[str, BranchState]:
    async with platform.store.read() as rows:
        found = await rows.branches.list_in_project(ProjectId(made["project"]["id"]))
    return {branch.name: branch.state for branch in found}


async def wake(platform: Platform, made: Json) -> None:
    async with platform.background_runner(), asyncio.timeout(60):
        await platform.inner.gateway_api.wakes.wake(EndpointId(made["endpoints"][0]["id"]))


async def family(platform: Platform) -> tuple[Json, Json, Json]:
    """A project whose branches all sleep: the root, its child and that one's, which has something of its own."""
    made = await platform.create_ready_project()
    parent = await create_branch(platform, made, name="parent", endpoint=False)
    child = await create_branch(platform, parent, name="child")
    await query(platform, child, "create table kept as select generate_series(1, 1000) as n")
    await suspend_compute(platform, child)
    await suspend_compute(platform, made)
    return made, parent, child


async def test_those_that_nobody_uses_go_children_first_and_come_back_for_who_connects(platform: Platform) -> None:
    made, _, child = await family(platform)
    assert await two_weeks_pass(platform) == "archiving 1 branches that nobody uses"
    assert await states(platform, made) == {
        "main": BranchState.READY,
        "parent": BranchState.READY,
        "child": BranchState.ARCHIVED,
    }
    assert await two_weeks_pass(platform) == "archiving 1 branches that nobody uses"
    assert await two_weeks_pass(platform) == ""
    assert set((await states(platform, made)).values()) == {BranchState.READY, BranchState.ARCHIVED}
    listed = await send_request(platform, "GET", f"{project_path(made)}/operations")
    assert [each["action"] for each in listed["operations"]].count("timeline_archive") == 2
    shown = await send_request(platform, "GET", f"{project_path(made)}/branches/{child['branch']['id']}")
    assert shown["branch"]["current_state"] == "archived"
    async with platform.store.read() as rows:
        question = AuditQuery(project_id=made["project"]["id"], action="archive_branch")
        lines = await rows.audit.page(question, 10, None)
    assert {line.details["name"] for line in lines} == {"parent", "child"}

    await wake(platform, child)
    assert await query(platform, child, "select count(*) from kept") == 1000
    await platform.run_operations()
    assert set((await states(platform, made)).values()) == {BranchState.READY}, "its ancestors come too"
    work = [each.action for each in await platform.list_operations(made["project"]["id"])]
    assert work.count(OperationAction.TIMELINE_UNARCHIVE) == 2
    assert await two_weeks_pass(platform) == "", "its compute runs"


async def test_roles_and_children_can_be_made_of_it_and_it_goes_again(platform: Platform) -> None:
    made, _, child = await family(platform)
    await two_weeks_pass(platform)
    path = f"{project_path(made)}/branches/{child['branch']['id']}"
    await send_request(platform, "POST", f"{path}/roles", status=201, body={"role": {"name": "app"}})
    await platform.run_operations()
    await two_weeks_pass(platform)
    grandchild = await create_branch(platform, child, name="grandchild")
    assert await query(platform, grandchild, "select count(*) from kept") == 1000
    assert await query(platform, grandchild, "select 1", role="app") == 1
    ended = {each.status for each in await platform.list_operations(made["project"]["id"])}
    assert ended <= {OperationStatus.FINISHED, OperationStatus.SKIPPED}


async def test_the_copies_of_its_replicas_go_and_are_made_again(platform: Platform) -> None:
    made, _, child = await family(platform)
    body = {"endpoint": {"branch_id": child["branch"]["id"], "type": "read_only"}}
    replica = (await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=body))[
        "endpoint"
    ]["id"]
    await platform.run_operations()
    await send_request(platform, "POST", f"{project_path(made)}/endpoints/{replica}/suspend")
    await platform.run_operations()
    before = (await platform.engine.observe()).volumes
    await two_weeks_pass(platform)
    async with platform.store.read() as rows:
        endpoint = await rows.endpoints.get(EndpointId(replica))
        branch = await rows.branches.get(ProjectId(made["project"]["id"]), BranchId(child["branch"]["id"]))
    assert endpoint is not None
    assert branch is not None
    assert branch.state is BranchState.ARCHIVED
    assert before - (await platform.engine.observe()).volumes == {endpoint.volume_id}
    async with platform.background_runner(), asyncio.timeout(60):
        await platform.inner.gateway_api.wakes.wake(endpoint.id)
    async with platform.connect(replica, "neondb_owner", "neondb") as client:
        assert await client.fetchval("select count(*) from kept") == 1000


async def test_a_pack_that_cannot_be_read_keeps_nobody_waiting(platform: Platform) -> None:
    made, _, child = await family(platform)
    await two_weeks_pass(platform)
    async with platform.store.read() as rows:
        branch = await rows.branches.get(ProjectId(made["project"]["id"]), BranchId(child["branch"]["id"]))
    assert branch
    pack = platform.settings.home / "volumes" / branch.volume_id / "data.pack"
    whole = pack.read_bytes()
    pack.write_bytes(whole[:-50])
    with pytest.raises(Unavailable, match="restore it from a backup"):
        await wake(platform, child)
    pack.write_bytes(whole)
    await wake(platform, child)
    assert await query(platform, child, "select count(*) from kept") == 1000

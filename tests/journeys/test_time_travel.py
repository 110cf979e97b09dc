"""Restores and branches at a time or LSN have exactly the rows committed by then, in every state of the compute."""

import random
from collections.abc import AsyncIterator

import pytest

from journeys.write_journal import JournalMark, WriteJournal
from support import storage
from support.branches import Json, create_branch, kill_compute, project_path, send_request, suspend_compute
from support.platform import Platform, open_platform, open_platform_in

STATES = ("running", "sleeping", "killed")


@pytest.fixture(params=["reflink", "plain"])
async def platform(request: pytest.FixtureRequest) -> AsyncIterator[Platform]:
    if request.param == "plain":
        async with open_platform(storage="plain") as opened:
            yield opened
        return
    with storage.create_empty_home() as home:
        storage.create_home_image(home)
        async with open_platform_in(home.parent, storage="reflink") as opened:
            yield opened


async def _set_compute_state(platform: Platform, created: Json, state: str) -> None:
    if state == "sleeping":
        await suspend_compute(platform, created)
    elif state == "killed":
        await kill_compute(platform, created)


async def _start(platform: Platform, created: Json) -> None:
    await send_request(platform, "POST", f"{project_path(created)}/endpoints/{created['endpoints'][0]['id']}/start")
    await platform.run_operations()


async def _restore(platform: Platform, created: Json, mark: JournalMark, name: str, *, by_lsn: bool) -> None:
    point = {"source_lsn": mark.lsn} if by_lsn else {"source_timestamp": mark.at.isoformat()}
    branch = created["branch"]["id"]
    body = {"source_branch_id": branch, "preserve_under_name": name, **point}
    await send_request(platform, "POST", f"{project_path(created)}/branches/{branch}/restore", body=body)
    await platform.run_operations()


async def test_exactly_what_was_committed_by_then(platform: Platform, is_long_run: bool) -> None:
    created = await platform.create_ready_project()
    journal = WriteJournal(platform, created)
    await journal.create_table()
    rng = random.Random(9)
    for number in range(20 if is_long_run else 3):
        await journal.write(marks=3)
        await platform.run_tasks()  # maintains history: creates bases and removes WAL
        mark = rng.choice(journal.marks)
        await _set_compute_state(platform, created, STATES[number % len(STATES)])
        await _restore(platform, created, mark, f"before {number}", by_lsn=bool(mark.lsn) and rng.random() < 0.5)
        await _start(platform, created)
        assert await journal.read_rows() == mark.rows
        journal.record_restore(mark)
    await journal.write(marks=1)
    assert await journal.read_rows() == journal.rows


async def test_branches_at_many_points_of_a_branch_that_is_being_written(platform: Platform, is_long_run: bool) -> None:
    """Each branch is read through a read-only endpoint."""
    created = await platform.create_ready_project()
    body = {"branch": {"parent_lsn": "0/1000"}}  # before the history begins
    refusal = await send_request(platform, "POST", f"{project_path(created)}/branches", status=400, body=body)
    assert "parent_lsn (0/1000) is not in the branch's history: use a position from 0/" in refusal["message"]
    journal = WriteJournal(platform, created)
    await journal.create_table()
    await journal.write(marks=6)
    for number, mark in enumerate(journal.marks if is_long_run else journal.marks[::3]):
        point = {"parent_lsn": mark.lsn} if number % 2 else {"parent_timestamp": mark.at.isoformat()}
        branch = await create_branch(platform, created, endpoint=False, name=f"then {number}", **point)
        body = {"endpoint": {"branch_id": branch["branch"]["id"], "type": "read_only"}}
        endpoint = await send_request(platform, "POST", f"{project_path(created)}/endpoints", status=201, body=body)
        await platform.run_operations()
        assert await WriteJournal(platform, {"endpoints": [endpoint["endpoint"]]}).read_rows() == mark.rows
    assert await journal.read_rows() == journal.rows


async def test_what_a_restore_took_away_is_in_the_branch_that_keeps_it(platform: Platform) -> None:
    created = await platform.create_ready_project()
    journal = WriteJournal(platform, created)
    await journal.create_table()
    await journal.write(marks=2)
    all_rows = set(journal.rows)
    child = await create_branch(platform, created, name="child")
    await _restore(platform, created, journal.marks[0], "kept", by_lsn=False)
    listed = (await send_request(platform, "GET", f"{project_path(created)}/branches"))["branches"]
    preserved_branch = next(each for each in listed if each["name"] == "kept")
    child_branch = next(each for each in listed if each["id"] == child["branch"]["id"])
    assert child_branch["parent_id"] == preserved_branch["id"]
    body = {"endpoint": {"branch_id": preserved_branch["id"], "type": "read_write"}}
    endpoint = await send_request(platform, "POST", f"{project_path(created)}/endpoints", status=201, body=body)
    await platform.run_operations()
    assert await WriteJournal(platform, {"endpoints": [endpoint["endpoint"]]}).read_rows() == all_rows
    assert await WriteJournal(platform, created).read_rows() == journal.marks[0].rows
    assert await WriteJournal(platform, child).read_rows() == all_rows

"""Back to any moment of a branch: exactly what was committed by then, whatever its compute does and however often."""

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
        async with open_platform(storage="plain") as made:
            yield made
        return
    with storage.create_empty_home() as home:
        storage.create_home_image(home)
        async with open_platform_in(home.parent, storage="reflink") as made:
            yield made


async def _put(platform: Platform, made: Json, state: str) -> None:
    """The branch's compute into that state."""
    if state == "sleeping":
        await suspend_compute(platform, made)
    elif state == "killed":
        await kill_compute(platform, made)


async def _start(platform: Platform, made: Json) -> None:
    await send_request(platform, "POST", f"{project_path(made)}/endpoints/{made['endpoints'][0]['id']}/start")
    await platform.run_operations()


async def _restore(platform: Platform, made: Json, mark: JournalMark, name: str, *, by_position: bool) -> None:
    point = {"source_lsn": mark.lsn} if by_position else {"source_timestamp": mark.at.isoformat()}
    branch = made["branch"]["id"]
    body = {"source_branch_id": branch, "preserve_under_name": name, **point}
    await send_request(platform, "POST", f"{project_path(made)}/branches/{branch}/restore", body=body)
    await platform.run_operations()


async def test_exactly_what_was_committed_by_then(platform: Platform, is_long_run: bool) -> None:
    made = await platform.create_ready_project()
    journal = WriteJournal(platform, made)
    await journal.create_table()
    dice = random.Random(9)
    for number in range(20 if is_long_run else 3):
        await journal.write(marks=3)
        await platform.run_tasks()  # history is kept up: bases are taken, WAL is pruned
        mark = dice.choice(journal.marks)
        await _put(platform, made, STATES[number % len(STATES)])
        await _restore(platform, made, mark, f"before {number}", by_position=bool(mark.lsn) and dice.random() < 0.5)
        await _start(platform, made)
        assert await journal.read_rows() == mark.rows
        journal.record_restore(mark)
    await journal.write(marks=1)
    assert await journal.read_rows() == journal.rows


async def test_branches_at_many_points_of_a_branch_that_is_being_written(platform: Platform, is_long_run: bool) -> None:
    """With a compute that only reads, as somebody has it who looks before they leap."""
    made = await platform.create_ready_project()
    early = {"branch": {"parent_lsn": "0/1000"}}  # known from the first moment on
    refused = await send_request(platform, "POST", f"{project_path(made)}/branches", status=400, body=early)
    assert "parent_lsn (0/1000) is not in the branch's history: use a position from 0/" in refused["message"]
    journal = WriteJournal(platform, made)
    await journal.create_table()
    await journal.write(marks=6)
    for number, mark in enumerate(journal.marks if is_long_run else journal.marks[::3]):
        point = {"parent_lsn": mark.lsn} if number % 2 else {"parent_timestamp": mark.at.isoformat()}
        branch = await create_branch(platform, made, endpoint=False, name=f"then {number}", **point)
        asked = {"endpoint": {"branch_id": branch["branch"]["id"], "type": "read_only"}}
        endpoint = await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=asked)
        await platform.run_operations()
        assert await WriteJournal(platform, {"endpoints": [endpoint["endpoint"]]}).read_rows() == mark.rows
    assert await journal.read_rows() == journal.rows


async def test_what_a_restore_took_away_is_in_the_branch_that_keeps_it(platform: Platform) -> None:
    made = await platform.create_ready_project()
    journal = WriteJournal(platform, made)
    await journal.create_table()
    await journal.write(marks=2)
    everything = set(journal.rows)
    child = await create_branch(platform, made, name="child")
    await _restore(platform, made, journal.marks[0], "kept", by_position=False)
    listed = (await send_request(platform, "GET", f"{project_path(made)}/branches"))["branches"]
    kept = next(each for each in listed if each["name"] == "kept")
    moved = next(each for each in listed if each["id"] == child["branch"]["id"])
    assert moved["parent_id"] == kept["id"]
    asked = {"endpoint": {"branch_id": kept["id"], "type": "read_write"}}
    endpoint = await send_request(platform, "POST", f"{project_path(made)}/endpoints", status=201, body=asked)
    await platform.run_operations()
    assert await WriteJournal(platform, {"endpoints": [endpoint["endpoint"]]}).read_rows() == everything
    assert await WriteJournal(platform, made).read_rows() == journal.marks[0].rows
    assert await WriteJournal(platform, child).read_rows() == everything

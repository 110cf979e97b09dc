"""Volumes are put away and brought back, whatever happens meanwhile."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bough.engine.port import EngineError, Readiness
from bough.ids import VolumeId
from engine.control import TESTS
from engine.homes import Compute, Home, branch_of


def test_killed_before_any_thing_that_it_does_to_the_disk_nothing_is_lost(open_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine.packing_child", str(open_folder / "home")],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    places = json.loads(done.stdout)
    assert min(places.values()) > 20, "it does more than that, so the test does not see it"


async def asleep(home: Home) -> Compute:
    compute = await home.compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    await compute.suspend()
    return compute


async def put_away(home: Home, compute: Compute) -> None:
    await home.engine.ensure_packed(compute.spec.project_id, compute.spec.volume_id)


async def bring_back(home: Home, compute: Compute) -> None:
    await home.engine.ensure_unpacked(compute.spec.project_id, compute.spec.volume_id)


async def test_a_volume_with_a_hole_without_end_is_not_packed(home: Home) -> None:
    """A tenant's code could make one; unpacked it would fill the disk."""
    compute = await asleep(home)
    with (compute.data / "hole").open("wb") as file:
        file.truncate(1 << 40)
    await put_away(home, compute)
    assert (compute.data / "hole").exists()
    (compute.data / "hole").unlink()
    await bring_back(home, compute)
    assert await compute.run() is Readiness.READY


async def test_one_whose_compute_runs_is_not_put_away(home: Home) -> None:
    compute = await home.compute()
    with pytest.raises(EngineError, match="still runs"):
        await put_away(home, compute)
    assert await compute.value("select 1") == 1


async def test_one_whose_compute_was_killed_comes_back_with_all_that_was_committed(home: Home) -> None:
    compute = await home.compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
        await compute.kill()
    await compute.suspend()
    await put_away(home, compute)
    await bring_back(home, compute)
    assert await compute.run() is Readiness.READY
    assert await compute.value("select count(*) from kept") == 1000


async def test_a_broken_pack_is_an_error_that_says_what_to_do_and_it_stays(home: Home) -> None:
    compute = await asleep(home)
    await put_away(home, compute)
    pack = compute.volume / "data.pack"
    whole = pack.read_bytes()
    pack.write_bytes(whole[:-100])
    with pytest.raises(EngineError, match="put it back from a backup") as refused:
        await bring_back(home, compute)
    assert not refused.value.transient
    assert not compute.data.exists()
    pack.write_bytes(whole)
    await bring_back(home, compute)
    assert await compute.run() is Readiness.READY
    assert await compute.value("select count(*) from kept") == 1000


async def test_without_room_it_stays_as_it_is(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await asleep(home)
    monkeypatch.setattr(home.engine._packing, "_floor", 1 << 60)
    await put_away(home, compute)
    assert (compute.volume / "data.pack").exists(), "it is so small that nobody looks for room"
    with pytest.raises(EngineError, match="free_space_floor"):
        await bring_back(home, compute)
    assert not compute.data.exists()
    monkeypatch.undo()
    await bring_back(home, compute)
    assert await compute.run() is Readiness.READY


async def test_a_user_id_is_not_lent_to_another_project_while_its_data_is_in_a_pack(home: Home) -> None:
    compute = await asleep(home)
    owner = compute.data.stat()
    await put_away(home, compute)
    await home.engine._owners.release_when_empty(compute.spec.project_id)
    await home.engine._owners.release_idle()
    other = await home.branch()
    if os.geteuid() == 0:
        assert other.data.stat().st_uid != owner.st_uid
    await bring_back(home, compute)
    assert (compute.data.stat().st_uid, compute.data.stat().st_mode) == (owner.st_uid, owner.st_mode)


async def test_what_is_put_away_can_be_removed(home: Home) -> None:
    compute = await asleep(home)
    await put_away(home, compute)
    await compute.absent()
    assert not compute.volume.exists()
    assert compute.spec.volume_id not in (await home.engine.observe()).volumes


async def test_of_what_is_not_there_nothing_can_be_put_away(home: Home) -> None:
    compute = await home.branch()
    await compute.absent()
    for verb in (put_away, bring_back):
        with pytest.raises(EngineError, match="does not exist"):
            await verb(home, compute)


async def test_a_branch_that_nobody_has_opened_yet_can_be_put_away(home: Home) -> None:
    parent = await asleep(home)
    child = await home.child(parent)
    await put_away(home, child)
    with pytest.raises(EngineError, match="archived"):
        await home.engine.ensure_branch(
            replace(branch_of(child.spec), volume_id=VolumeId.new(), parent=child.spec.volume_id)
        )
    await bring_back(home, child)
    assert await child.run() is Readiness.READY
    assert await child.value("select count(*) from kept") == 1000

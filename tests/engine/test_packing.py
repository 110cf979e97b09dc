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
from engine.control_process import TESTS
from support.engine_home import Compute, EngineHome, make_branch_spec


def test_killed_before_any_thing_that_it_does_to_the_disk_nothing_is_lost(traversable_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine.packing_child", str(traversable_folder / "home")],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    places = json.loads(done.stdout)
    assert min(places.values()) > 20, "it does more than that, so the test does not see it"


async def asleep(home: EngineHome) -> Compute:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    await compute.suspend()
    return compute


async def put_away(home: EngineHome, compute: Compute) -> None:
    await home.engine.ensure_packed(compute.spec.project_id, compute.spec.volume_id)


async def bring_back(home: EngineHome, compute: Compute) -> None:
    await home.engine.ensure_unpacked(compute.spec.project_id, compute.spec.volume_id)


async def test_a_volume_with_a_hole_without_end_is_not_packed(home: EngineHome) -> None:
    """A tenant's code could make one; unpacked it would fill the disk."""
    compute = await asleep(home)
    with (compute.data_folder / "hole").open("wb") as file:
        file.truncate(1 << 40)
    await put_away(home, compute)
    assert (compute.data_folder / "hole").exists()
    (compute.data_folder / "hole").unlink()
    await bring_back(home, compute)
    assert await compute.start() is Readiness.READY


async def test_one_whose_compute_runs_is_not_put_away(home: EngineHome) -> None:
    compute = await home.create_compute()
    with pytest.raises(EngineError, match="still runs"):
        await put_away(home, compute)
    assert await compute.fetch_value("select 1") == 1


async def test_one_whose_compute_was_killed_comes_back_with_all_that_was_committed(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
        await compute.kill()
    await compute.suspend()
    await put_away(home, compute)
    await bring_back(home, compute)
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


async def test_a_broken_pack_is_an_error_that_says_what_to_do_and_it_stays(home: EngineHome) -> None:
    compute = await asleep(home)
    await put_away(home, compute)
    pack = compute.volume_folder / "data.pack"
    whole = pack.read_bytes()
    pack.write_bytes(whole[:-100])
    with pytest.raises(EngineError, match="put it back from a backup") as refused:
        await bring_back(home, compute)
    assert not refused.value.transient
    assert not compute.data_folder.exists()
    pack.write_bytes(whole)
    await bring_back(home, compute)
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


async def test_without_room_it_stays_as_it_is(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await asleep(home)
    monkeypatch.setattr(home.engine._packer, "_floor", 1 << 60)
    await put_away(home, compute)
    assert (compute.volume_folder / "data.pack").exists(), "it is so small that nobody looks for room"
    with pytest.raises(EngineError, match="free_space_floor"):
        await bring_back(home, compute)
    assert not compute.data_folder.exists()
    monkeypatch.undo()
    await bring_back(home, compute)
    assert await compute.start() is Readiness.READY


async def test_a_user_id_is_not_lent_to_another_project_while_its_data_is_in_a_pack(home: EngineHome) -> None:
    compute = await asleep(home)
    owner = compute.data_folder.stat()
    await put_away(home, compute)
    await home.engine._project_users.release_if_unused(compute.spec.project_id)
    await home.engine._project_users.release_all_unused()
    other = await home.create_branch()
    if os.geteuid() == 0:
        assert other.data_folder.stat().st_uid != owner.st_uid
    await bring_back(home, compute)
    assert (compute.data_folder.stat().st_uid, compute.data_folder.stat().st_mode) == (owner.st_uid, owner.st_mode)


async def test_what_is_put_away_can_be_removed(home: EngineHome) -> None:
    compute = await asleep(home)
    await put_away(home, compute)
    await compute.delete()
    assert not compute.volume_folder.exists()
    assert compute.spec.volume_id not in (await home.engine.observe()).volumes


async def test_of_what_is_not_there_nothing_can_be_put_away(home: EngineHome) -> None:
    compute = await home.create_branch()
    await compute.delete()
    for verb in (put_away, bring_back):
        with pytest.raises(EngineError, match="does not exist"):
            await verb(home, compute)


async def test_a_branch_that_nobody_has_opened_yet_can_be_put_away(home: EngineHome) -> None:
    parent = await asleep(home)
    child = await home.create_child(parent)
    await put_away(home, child)
    with pytest.raises(EngineError, match="archived"):
        await home.engine.ensure_branch(
            replace(make_branch_spec(child.spec), volume_id=VolumeId.new(), parent=child.spec.volume_id)
        )
    await bring_back(home, child)
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select count(*) from kept") == 1000

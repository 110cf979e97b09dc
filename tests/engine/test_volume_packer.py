"""Packing and unpacking volumes, whatever happens meanwhile."""

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
    result = subprocess.run(
        [sys.executable, "-m", "engine.packing_child", str(traversable_folder / "home")],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    points = json.loads(result.stdout)
    assert min(points.values()) > 20, "packing does more than that, so the test misses changes"


async def create_suspended_compute(home: EngineHome) -> Compute:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
    await compute.suspend()
    return compute


async def pack(home: EngineHome, compute: Compute) -> None:
    await home.engine.ensure_packed(compute.spec.project_id, compute.spec.volume_id)


async def unpack(home: EngineHome, compute: Compute) -> None:
    await home.engine.ensure_unpacked(compute.spec.project_id, compute.spec.volume_id)


async def test_a_volume_with_a_hole_without_end_is_not_packed(home: EngineHome) -> None:
    """A tenant's code could create one, and unpacking it would fill the disk."""
    compute = await create_suspended_compute(home)
    with (compute.data_folder / "hole").open("wb") as file:
        file.truncate(1 << 40)
    await pack(home, compute)
    assert (compute.data_folder / "hole").exists()
    (compute.data_folder / "hole").unlink()
    await unpack(home, compute)
    assert await compute.start() is Readiness.READY


async def test_one_whose_compute_runs_is_not_put_away(home: EngineHome) -> None:
    compute = await home.create_compute()
    with pytest.raises(EngineError, match="still runs"):
        await pack(home, compute)
    assert await compute.fetch_value("select 1") == 1


async def test_one_whose_compute_was_killed_comes_back_with_all_that_was_committed(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        await db.execute("create table kept as select generate_series(1, 1000) as n")
        await compute.kill()
    await compute.suspend()
    await pack(home, compute)
    await unpack(home, compute)
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


async def test_a_broken_pack_is_an_error_that_says_what_to_do_and_it_stays(home: EngineHome) -> None:
    compute = await create_suspended_compute(home)
    await pack(home, compute)
    pack_file = compute.volume_folder / "data.pack"
    content = pack_file.read_bytes()
    pack_file.write_bytes(content[:-100])
    with pytest.raises(EngineError, match="restore it from a backup") as refused:
        await unpack(home, compute)
    assert not refused.value.transient
    assert not compute.data_folder.exists()
    pack_file.write_bytes(content)
    await unpack(home, compute)
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


async def test_without_room_it_stays_as_it_is(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await create_suspended_compute(home)
    monkeypatch.setattr(home.engine._components.packer, "_floor", 1 << 60)
    await pack(home, compute)
    assert (compute.volume_folder / "data.pack").exists(), "the pack is too small for a space check"
    with pytest.raises(EngineError, match="free_space_floor"):
        await unpack(home, compute)
    assert not compute.data_folder.exists()
    monkeypatch.undo()
    await unpack(home, compute)
    assert await compute.start() is Readiness.READY


async def test_a_user_id_is_not_lent_to_another_project_while_its_data_is_in_a_pack(home: EngineHome) -> None:
    compute = await create_suspended_compute(home)
    owner = compute.data_folder.stat()
    await pack(home, compute)
    await home.engine._components.project_users.release_if_unused(compute.spec.project_id)
    await home.engine._components.project_users.release_all_unused()
    other = await home.create_branch()
    if os.geteuid() == 0:
        assert other.data_folder.stat().st_uid != owner.st_uid
    await unpack(home, compute)
    assert (compute.data_folder.stat().st_uid, compute.data_folder.stat().st_mode) == (owner.st_uid, owner.st_mode)


async def test_what_is_put_away_can_be_removed(home: EngineHome) -> None:
    compute = await create_suspended_compute(home)
    await pack(home, compute)
    await compute.delete()
    assert not compute.volume_folder.exists()
    assert compute.spec.volume_id not in (await home.engine.observe()).volumes


async def test_of_what_is_not_there_nothing_can_be_put_away(home: EngineHome) -> None:
    compute = await home.create_branch()
    await compute.delete()
    for verb in (pack, unpack):
        with pytest.raises(EngineError, match="does not exist"):
            await verb(home, compute)


async def test_a_branch_that_nobody_has_opened_yet_can_be_put_away(home: EngineHome) -> None:
    parent = await create_suspended_compute(home)
    child = await home.create_child(parent)
    await pack(home, child)
    with pytest.raises(EngineError, match="archived"):
        await home.engine.ensure_branch(
            replace(make_branch_spec(child.spec), volume_id=VolumeId.new(), source_volume_id=child.spec.volume_id)
        )
    await unpack(home, child)
    assert await child.start() is Readiness.READY
    assert await child.fetch_value("select count(*) from kept") == 1000

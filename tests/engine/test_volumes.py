"""Volumes: complete or absent, owned by their project, removed without a trace."""

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from bough.config import is_root
from bough.engine.local.engine import LocalEngine
from bough.engine.local.volumes import reflink
from bough.engine.local.volumes.atomic_folders import create_atomically, remove_atomically
from bough.engine.local.volumes.driver_choice import choose_driver
from bough.engine.local.volumes.folder import VolumeRecord
from bough.engine.local.volumes.plain import PlainDriver
from bough.engine.local.volumes.reflink import ReflinkDriver
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.errors import InvalidSetting
from bough.ids import ProjectId, VolumeId
from support.engine_home import EngineHome, make_branch_spec, make_compute_spec
from support.loop_images import mount_loop_image
from support.requirements import require_cow, require_root


def get_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_failure_in_the_making_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), create_atomically(tmp_path / "thing", PlainDriver()) as staged:
        staged.mkdir()
        raise RuntimeError("the disk broke")
    assert list(tmp_path.iterdir()) == []


def test_what_a_crash_left_is_made_again_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "thing.making").mkdir()
    (tmp_path / "thing.making" / "half").touch()
    with create_atomically(tmp_path / "thing", PlainDriver()) as staged:
        staged.mkdir()
        (staged / "whole").touch()
    assert [path.name for path in (tmp_path / "thing").iterdir()] == ["whole"]


def test_dropping_may_be_repeated_after_a_crash_in_its_middle(tmp_path: Path) -> None:
    for name in ("thing", "thing.dropping"):
        (tmp_path / name / "folder").mkdir(parents=True)
    remove_atomically(tmp_path / "thing", PlainDriver())
    remove_atomically(tmp_path / "thing", PlainDriver())
    assert list(tmp_path.iterdir()) == []


async def test_a_removal_that_nobody_waits_for_any_longer_hurries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, is_hurried = threading.Event(), list[bool]()

    def free_slowly(_: Path, stop_pacing: threading.Event) -> None:
        started.set()
        is_hurried.append(stop_pacing.wait(60))

    monkeypatch.setattr(reflink, "free_blocks", free_slowly)
    (tmp_path / "vol-old" / "data").mkdir(parents=True)
    volumes = Volumes(tmp_path)
    volumes.configure(ReflinkDriver(), None)
    removal = asyncio.create_task(volumes.ensure_absent(VolumeId("vol-old"), ProjectId.new()))
    await asyncio.to_thread(started.wait, 60)
    removal.cancel()
    with pytest.raises(asyncio.CancelledError):
        await removal
    assert is_hurried == [True]
    assert list(tmp_path.iterdir()) == []
    volumes.close()


@pytest.mark.parametrize("storage", ["reflink", "btrfs"])
def test_a_driver_that_the_file_system_cannot_do_is_refused(traversable_folder: Path, storage: str) -> None:
    with pytest.raises(InvalidSetting, match=f"does not support --storage {storage}.*`bough storage init`"):
        choose_driver(storage, traversable_folder)


def test_auto_takes_the_best_that_the_file_system_can_do(traversable_folder: Path) -> None:
    require_cow()
    assert choose_driver("auto", traversable_folder).name == "plain"
    with mount_loop_image("xfs", 320) as folder:
        assert choose_driver("auto", folder).name == "reflink"
        assert choose_driver("plain", folder).name == "plain"
    with mount_loop_image("btrfs", 128) as folder:
        assert choose_driver("auto", folder).name == "btrfs"
        assert choose_driver("reflink", folder).name == "reflink"


async def test_a_volume_is_closed_to_all_but_its_project(home: EngineHome) -> None:
    compute = await home.create_branch()
    owner = compute.data_folder.stat().st_uid
    assert get_mode(compute.data_folder) == 0o700
    assert all(path.lstat().st_uid == owner for path in compute.data_folder.rglob("*"))
    assert not any(get_mode(path) & 0o077 for path in compute.data_folder.rglob("*"))
    assert not get_mode(compute.volume_folder) & 0o007
    assert owner in range(*home.settings.project_uids) if is_root() else owner == os.geteuid()


async def test_a_project_cannot_write_what_is_ours(home: EngineHome) -> None:
    require_root()
    compute = await home.create_compute()
    for path in (compute.volume_folder, compute.volume_folder / "conf", *(compute.volume_folder / "conf").iterdir()):
        assert path.stat().st_uid == 0
        assert not get_mode(path) & 0o022
    assert get_mode(compute.volume_folder / "volume.json") == 0o600


def test_a_record_is_stored_under_the_keys_of_earlier_versions() -> None:
    stored = {
        "project_id": "quiet-sea-12345678",
        "install": "system-17",
        "parent": "vol-parent",
        "wal_apart": True,
        "born": "spare-1",
        "lsn": "0/1000000",
        "at": "2026-11-18T00:00:00+00:00",
        "subscribes": True,
        "is_replica": True,
        "first_segment": "000000010000000000000001",
        "made_at": "2026-11-18T00:00:01+00:00",
        "begins_itself": True,
        "base_of": "vol-other",
        "pending": True,
    }
    record = VolumeRecord.from_fields({**stored, "applied": "a field of another version"})
    assert record.to_fields() == stored
    assert record.is_pending and record.is_self_contained and record.has_external_wal
    assert (record.spare_name, record.origin_lsn) == ("spare-1", "0/1000000")


async def test_leftovers_are_neither_seen_nor_kept(home: EngineHome) -> None:
    volumes = home.settings.home / "volumes"
    for name in ("vol-half.making", "vol-gone.dropping"):
        (volumes / name / "data").mkdir(parents=True)
    observed = (await home.engine.observe()).volumes
    assert not any("half" in volume or "gone" in volume for volume in observed)
    engine = LocalEngine(home.settings)
    await engine.prepare()
    await engine.close()
    assert list(volumes.glob("*.*")) == []


async def test_a_leftover_of_the_same_volume_is_redone(home: EngineHome) -> None:
    spec = make_compute_spec(home.get_install())
    staged = home.settings.home / "volumes" / f"{spec.volume_id}.making"
    staged.mkdir()
    (staged / "data").touch()
    await home.engine.ensure_branch(make_branch_spec(spec))
    assert not staged.exists()
    assert (home.settings.home / "volumes" / spec.volume_id / "data" / "PG_VERSION").read_text() == "17\n"
    await home.engine.ensure_absent(spec.project_id, spec.volume_id)


async def test_nothing_new_is_made_below_the_floor_of_free_space(home: EngineHome) -> None:
    existing = await home.create_branch()
    engine = LocalEngine(home.settings.model_copy(update={"free_space_floor": 1 << 60}))
    await engine.prepare()
    await engine.ensure_branch(make_branch_spec(existing.spec))
    with pytest.raises(EngineError, match="less than free_space_floor") as refused:
        await engine.ensure_branch(make_branch_spec(make_compute_spec(home.get_install(), project_id=ProjectId.new())))
    assert not refused.value.transient
    await engine.close()

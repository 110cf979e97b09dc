"""The contract of every volume driver; copy-on-write drivers run on file systems created for the test."""

import os
import stat

import pytest

from bough.engine.local.durable_files import is_btrfs
from bough.engine.local.isolation.sandbox import current_identity
from bough.engine.local.volumes import ioctls, reflink
from bough.engine.local.volumes.disk_usage import DiskUsage, measure_disk_usage
from bough.engine.local.volumes.driver_choice import can_reflink
from bough.engine.local.volumes.tree_copy import chown_tree
from contracts.driver_workspace import COPY_ON_WRITE, MB, TENANT, DriverWorkspace, read_tree
from support.loop_images import mount_loop_image
from support.platform import temporary_folder
from support.requirements import require_cow, require_root


def test_a_new_folder_is_empty_and_closed(workspace: DriverWorkspace) -> None:
    workspace.driver.make_folder(workspace.source_folder)
    assert list(workspace.source_folder.iterdir()) == []
    assert stat.S_IMODE(workspace.source_folder.stat().st_mode) == 0o700


def test_a_clone_has_every_file_folder_and_link(workspace: DriverWorkspace) -> None:
    workspace.fill({f"base/5/{number}": bytes([number]) * number * 1000 for number in range(50)})
    (workspace.source_folder / "base" / "empty").mkdir(mode=0o700)
    (workspace.source_folder / "link").symlink_to("base/5/7")
    (workspace.source_folder / "folder").symlink_to("base")
    (workspace.source_folder / "nowhere").symlink_to("/nowhere")
    copied = workspace.clone()
    assert read_tree(copied) == read_tree(workspace.source_folder)
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in copied.rglob("*") if not path.is_symlink()}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_a_clone_belongs_to_its_owner_and_to_nobody_else(workspace: DriverWorkspace) -> None:
    require_root()
    workspace.fill({"base/5/1": b"x"})
    (workspace.source_folder / "link").symlink_to("base")
    copied = workspace.clone(TENANT)
    assert {path.lstat().st_uid for path in [copied, *copied.rglob("*")]} == {TENANT.uid}
    assert {path.lstat().st_gid for path in [copied, *copied.rglob("*")]} == {TENANT.gid}
    assert stat.S_IMODE(copied.stat().st_mode) == 0o700
    assert workspace.source_folder.stat().st_uid == 0


def test_a_clone_for_the_same_owner_stays_with_it(workspace: DriverWorkspace) -> None:
    require_root()
    workspace.fill({"base/5/1": b"x"})
    chown_tree(workspace.source_folder, TENANT)
    copied = workspace.clone(TENANT)
    assert {path.lstat().st_uid for path in [copied, *copied.rglob("*")]} == {TENANT.uid}


def test_what_a_clone_must_not_have_is_left_out(workspace: DriverWorkspace) -> None:
    expected = {"PG_VERSION": b"17\n", "base/5/1259": b"table", "base/5/t_1": b"mine", "global/pg_control": b"c"}
    left_out = (
        *("postmaster.pid", "postmaster.opts", "backup_label", "backup_label.old", "tablespace_map", "backup_manifest"),
        *("current_logfiles", "postgresql.auto.conf.tmp", "base/5/pg_internal.init", "global/pg_internal.init.77"),
        *("base/pgsql_tmp/pgsql_tmp1.0", "base/5/t3_16400", "base/5/t3_16400_fsm", "base/5/t3_16400.1"),
    )
    emptied = (
        *("pg_wal/0000000100000000000000A1", "pg_wal/archive_status/x.done", "pg_replslot/slot/state", "pg_stat_tmp/a"),
        *("pg_notify/0000", "pg_dynshmem/a", "pg_serial/a", "pg_snapshots/a", "pg_subtrans/0"),
    )
    workspace.fill(expected | dict.fromkeys((*left_out, *emptied), b"of the server"))
    before = read_tree(workspace.source_folder)
    folders = dict.fromkeys(("base", "base/5", "global", *(name.split("/")[0] for name in emptied)))
    assert read_tree(workspace.clone()) == expected | folders
    assert read_tree(workspace.source_folder) == before


def test_a_link_to_wal_elsewhere_is_left_out(workspace: DriverWorkspace) -> None:
    workspace.fill({"elsewhere/1": b"wal"})
    (workspace.source_folder / "pg_wal").symlink_to("elsewhere")
    assert not os.path.lexists(workspace.clone() / "pg_wal")
    assert (workspace.source_folder / "elsewhere" / "1").read_bytes() == b"wal"


def test_an_existing_target_is_not_touched(workspace: DriverWorkspace) -> None:
    workspace.fill({"base/5/1": b"new"})
    workspace.driver.make_folder(workspace.copy_folder)
    (workspace.copy_folder / "mine").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        workspace.clone()
    assert read_tree(workspace.copy_folder) == {"mine": b"old"}


def test_a_clone_and_its_source_live_apart(workspace: DriverWorkspace) -> None:
    workspace.fill({"base/5/1": b"same" * 10_000, "base/5/2": b"same"})
    copied = workspace.clone()
    (copied / "base" / "5" / "1").write_bytes(b"changed in the clone")
    (workspace.source_folder / "base" / "5" / "2").write_bytes(b"changed in the source")
    (copied / "new").touch()
    assert read_tree(workspace.source_folder) == {
        "base": None,
        "base/5": None,
        "base/5/1": b"same" * 10_000,
        "base/5/2": b"changed in the source",
    }
    assert (copied / "base" / "5" / "2").read_bytes() == b"same"


def test_a_clone_can_be_cloned_and_outlives_its_source(workspace: DriverWorkspace) -> None:
    workspace.fill({"base/5/1": b"first" * 5000})
    before = read_tree(workspace.source_folder)
    workspace.driver.clone(workspace.clone(), workspace.folder / "grandchild", current_identity())
    workspace.driver.remove(workspace.source_folder)
    workspace.driver.remove(workspace.copy_folder)
    assert read_tree(workspace.folder / "grandchild") == before


def test_a_folder_made_by_anyone_else_can_be_cloned_too(workspace: DriverWorkspace) -> None:
    workspace.source_folder.mkdir()
    workspace.fill({"base/5/1": b"x" * 100_000})
    assert read_tree(workspace.clone()) == read_tree(workspace.source_folder)
    workspace.driver.clone(workspace.copy_folder, workspace.folder / "grandchild", current_identity())
    assert read_tree(workspace.folder / "grandchild") == read_tree(workspace.source_folder)


def test_a_folder_on_another_file_system_can_be_cloned_too(workspace: DriverWorkspace) -> None:
    with temporary_folder() as elsewhere:
        (elsewhere / "source" / "base").mkdir(parents=True)
        (elsewhere / "source" / "base" / "large").write_bytes(os.urandom(20 * MB))
        workspace.driver.clone(elsewhere / "source", workspace.copy_folder, current_identity())
        assert read_tree(workspace.copy_folder) == read_tree(elsewhere / "source")


def test_one_file_is_cloned_within_a_file_system_and_between_two(workspace: DriverWorkspace) -> None:
    workspace.fill({"small": b"x" * 8192, "large": os.urandom(20 * MB)})
    with temporary_folder() as elsewhere:
        for name in ("small", "large"):
            for target in (workspace.folder / name, elsewhere / name):
                workspace.driver.clone_file(workspace.source_folder / name, target, current_identity())
                assert target.read_bytes() == (workspace.source_folder / name).read_bytes()
                assert stat.S_IMODE(target.stat().st_mode) == 0o600
            (workspace.folder / name).unlink()


def test_a_large_file_with_holes_is_cloned_whole(workspace: DriverWorkspace) -> None:
    workspace.fill({})
    with (workspace.source_folder / "large").open("wb") as file:
        for offset in (0, 3 * MB, 16 * MB - 1, 16 * MB, 70 * MB + 12345):
            file.seek(offset)
            file.write(os.urandom(9000))
    assert read_tree(workspace.clone()) == read_tree(workspace.source_folder)


def test_a_large_file_that_lies_scattered_is_cloned_whole_and_piece_by_piece(
    workspace: DriverWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.fill({"large": os.urandom(24 * MB)})
    workspace.clone()  # later writes go to new extents
    with (workspace.source_folder / "large").open("r+b") as file:
        for page in range(0, 24 * MB // 8192, 2):
            file.seek(page * 8192)
            file.write(os.urandom(8192))
        os.fsync(file.fileno())
    lengths: list[int] = []

    def clone_range(source: int, target: int, offset: int, length: int) -> None:
        lengths.append(length)
        ioctls.clone_range(source, target, offset, length)

    monkeypatch.setattr(reflink, "clone_range", clone_range)
    second_copy = workspace.folder / "second"
    workspace.driver.clone(workspace.source_folder, second_copy, current_identity())
    assert read_tree(second_copy) == read_tree(workspace.source_folder)
    if workspace.driver.name == "reflink":
        assert len(lengths) > 3000 / 256, "a piece has few extents"
        assert max(lengths) < 4 * MB


def test_removing_may_be_repeated_and_begun_anywhere(workspace: DriverWorkspace) -> None:
    workspace.fill({"base/5/1": b"x"})
    volume = workspace.folder / "volume"
    volume.mkdir()
    workspace.driver.clone(workspace.source_folder, volume / "data", current_identity())
    (volume / "conf").mkdir()
    (volume / "data" / "base" / "5" / "1").unlink()
    for path in (volume, volume, workspace.folder / "never" / "was", workspace.source_folder, workspace.source_folder):
        workspace.driver.remove(path)
    assert list(workspace.folder.iterdir()) == []


def test_what_a_clone_shares_with_its_source_takes_no_room(workspace: DriverWorkspace) -> None:
    workspace.fill({f"base/5/{number}": os.urandom(5 * MB) for number in range(20)})
    before = workspace.used_bytes()
    copied = workspace.clone()
    if workspace.driver.name == "plain":
        usage = measure_disk_usage(copied)
        assert usage.own + usage.shared == 100 * MB
        return
    assert workspace.used_bytes() - before < 4 * MB
    assert (
        measure_disk_usage(copied) == measure_disk_usage(workspace.source_folder) == DiskUsage(own=0, shared=100 * MB)
    )
    with (copied / "base" / "5" / "1").open("r+b") as file:
        file.write(os.urandom(3 * MB))
    assert measure_disk_usage(copied) == DiskUsage(own=3 * MB, shared=97 * MB)
    assert workspace.used_bytes() - before >= 3 * MB


def test_a_file_of_many_extents_is_counted_to_its_end(workspace: DriverWorkspace) -> None:
    workspace.fill({})
    with (workspace.source_folder / "scattered").open("wb") as file:
        file.truncate(64 * MB)
        for number in range(700):
            file.seek(number * 64 * 1024)
            file.write(os.urandom(4096))
    assert measure_disk_usage(workspace.source_folder).own == pytest.approx(700 * 4096, rel=0.1)


def test_what_a_file_system_can_do_is_found_out(workspace: DriverWorkspace) -> None:
    if workspace.driver.name in COPY_ON_WRITE:
        assert can_reflink(workspace.folder)
    assert is_btrfs(workspace.folder) == (workspace.driver.name == "btrfs")
    assert list(workspace.folder.iterdir()) == []


def test_a_file_system_without_shared_blocks_says_so() -> None:
    require_cow()
    with mount_loop_image("ext4", 64) as folder:
        assert not can_reflink(folder)
        assert not is_btrfs(folder)

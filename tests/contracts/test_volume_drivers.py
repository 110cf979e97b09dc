"""One contract for every volume driver; the copy-on-write ones on file systems made for it."""

import os
import stat

import pytest

from bough.engine.local.durable import is_btrfs
from bough.engine.local.isolation.sandbox import ourselves
from bough.engine.local.volumes import ioctls, reflink
from bough.engine.local.volumes.copying import chown_tree
from bough.engine.local.volumes.detect import can_reflink
from bough.engine.local.volumes.sizes import Sizes, sizes
from contracts.shelf import COPY_ON_WRITE, MB, TENANT, Shelf, tree
from images import loop_image
from requires import require_cow, require_root
from world import short_folder


def test_a_new_folder_is_empty_and_closed(shelf: Shelf) -> None:
    shelf.driver.make_folder(shelf.source)
    assert list(shelf.source.iterdir()) == []
    assert stat.S_IMODE(shelf.source.stat().st_mode) == 0o700


def test_a_clone_has_every_file_folder_and_link(shelf: Shelf) -> None:
    shelf.fill({f"base/5/{number}": bytes([number]) * number * 1000 for number in range(50)})
    (shelf.source / "base" / "empty").mkdir(mode=0o700)
    (shelf.source / "link").symlink_to("base/5/7")
    (shelf.source / "folder").symlink_to("base")
    (shelf.source / "nowhere").symlink_to("/nowhere")
    copied = shelf.clone()
    assert tree(copied) == tree(shelf.source)
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in copied.rglob("*") if not path.is_symlink()}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_a_clone_belongs_to_its_owner_and_to_nobody_else(shelf: Shelf) -> None:
    require_root()
    shelf.fill({"base/5/1": b"x"})
    (shelf.source / "link").symlink_to("base")
    copied = shelf.clone(TENANT)
    assert {path.lstat().st_uid for path in [copied, *copied.rglob("*")]} == {TENANT.uid}
    assert {path.lstat().st_gid for path in [copied, *copied.rglob("*")]} == {TENANT.gid}
    assert stat.S_IMODE(copied.stat().st_mode) == 0o700
    assert shelf.source.stat().st_uid == 0


def test_a_clone_for_the_same_owner_stays_with_it(shelf: Shelf) -> None:
    require_root()
    shelf.fill({"base/5/1": b"x"})
    chown_tree(shelf.source, TENANT)
    copied = shelf.clone(TENANT)
    assert {path.lstat().st_uid for path in [copied, *copied.rglob("*")]} == {TENANT.uid}


def test_what_a_clone_must_not_have_is_left_out(shelf: Shelf) -> None:
    kept = {"PG_VERSION": b"17\n", "base/5/1259": b"table", "base/5/t_1": b"mine", "global/pg_control": b"c"}
    left_out = (
        *("postmaster.pid", "postmaster.opts", "backup_label", "backup_label.old", "tablespace_map", "backup_manifest"),
        *("current_logfiles", "postgresql.auto.conf.tmp", "base/5/pg_internal.init", "global/pg_internal.init.77"),
        *("base/pgsql_tmp/pgsql_tmp1.0", "base/5/t3_16400", "base/5/t3_16400_fsm", "base/5/t3_16400.1"),
    )
    emptied = (
        *("pg_wal/0000000100000000000000A1", "pg_wal/archive_status/x.done", "pg_replslot/slot/state", "pg_stat_tmp/a"),
        *("pg_notify/0000", "pg_dynshmem/a", "pg_serial/a", "pg_snapshots/a", "pg_subtrans/0"),
    )
    shelf.fill(kept | dict.fromkeys((*left_out, *emptied), b"of the server"))
    before = tree(shelf.source)
    folders = dict.fromkeys(("base", "base/5", "global", *(name.split("/")[0] for name in emptied)))
    assert tree(shelf.clone()) == kept | folders
    assert tree(shelf.source) == before


def test_a_link_to_wal_elsewhere_is_left_out(shelf: Shelf) -> None:
    shelf.fill({"elsewhere/1": b"wal"})
    (shelf.source / "pg_wal").symlink_to("elsewhere")
    assert not os.path.lexists(shelf.clone() / "pg_wal")
    assert (shelf.source / "elsewhere" / "1").read_bytes() == b"wal"


def test_an_existing_target_is_not_touched(shelf: Shelf) -> None:
    shelf.fill({"base/5/1": b"new"})
    shelf.driver.make_folder(shelf.copy)
    (shelf.copy / "mine").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        shelf.clone()
    assert tree(shelf.copy) == {"mine": b"old"}


def test_a_clone_and_its_source_live_apart(shelf: Shelf) -> None:
    shelf.fill({"base/5/1": b"same" * 10_000, "base/5/2": b"same"})
    copied = shelf.clone()
    (copied / "base" / "5" / "1").write_bytes(b"changed in the clone")
    (shelf.source / "base" / "5" / "2").write_bytes(b"changed in the source")
    (copied / "new").touch()
    assert tree(shelf.source) == {
        "base": None,
        "base/5": None,
        "base/5/1": b"same" * 10_000,
        "base/5/2": b"changed in the source",
    }
    assert (copied / "base" / "5" / "2").read_bytes() == b"same"


def test_a_clone_can_be_cloned_and_outlives_its_source(shelf: Shelf) -> None:
    shelf.fill({"base/5/1": b"first" * 5000})
    before = tree(shelf.source)
    shelf.driver.clone(shelf.clone(), shelf.place / "grandchild", ourselves())
    shelf.driver.remove(shelf.source)
    shelf.driver.remove(shelf.copy)
    assert tree(shelf.place / "grandchild") == before


def test_a_folder_made_by_anyone_else_can_be_cloned_too(shelf: Shelf) -> None:
    shelf.source.mkdir()
    shelf.fill({"base/5/1": b"x" * 100_000})
    assert tree(shelf.clone()) == tree(shelf.source)
    shelf.driver.clone(shelf.copy, shelf.place / "grandchild", ourselves())
    assert tree(shelf.place / "grandchild") == tree(shelf.source)


def test_a_folder_on_another_file_system_can_be_cloned_too(shelf: Shelf) -> None:
    with short_folder() as elsewhere:
        (elsewhere / "source" / "base").mkdir(parents=True)
        (elsewhere / "source" / "base" / "large").write_bytes(os.urandom(20 * MB))
        shelf.driver.clone(elsewhere / "source", shelf.copy, ourselves())
        assert tree(shelf.copy) == tree(elsewhere / "source")


def test_one_file_is_cloned_within_a_file_system_and_between_two(shelf: Shelf) -> None:
    shelf.fill({"small": b"x" * 8192, "large": os.urandom(20 * MB)})
    with short_folder() as elsewhere:
        for name in ("small", "large"):
            for target in (shelf.place / name, elsewhere / name):
                shelf.driver.clone_file(shelf.source / name, target, ourselves())
                assert target.read_bytes() == (shelf.source / name).read_bytes()
                assert stat.S_IMODE(target.stat().st_mode) == 0o600
            (shelf.place / name).unlink()


def test_a_large_file_with_holes_is_cloned_whole(shelf: Shelf) -> None:
    shelf.fill({})
    with (shelf.source / "large").open("wb") as file:
        for offset in (0, 3 * MB, 16 * MB - 1, 16 * MB, 70 * MB + 12345):
            file.seek(offset)
            file.write(os.urandom(9000))
    assert tree(shelf.clone()) == tree(shelf.source)


def test_a_large_file_that_lies_scattered_is_cloned_whole_and_piece_by_piece(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.fill({"large": os.urandom(24 * MB)})
    shelf.clone()  # what is written now goes elsewhere
    with (shelf.source / "large").open("r+b") as file:
        for page in range(0, 24 * MB // 8192, 2):
            file.seek(page * 8192)
            file.write(os.urandom(8192))
        os.fsync(file.fileno())
    lengths: list[int] = []

    def clone_range(source: int, target: int, offset: int, length: int) -> None:
        lengths.append(length)
        ioctls.clone_range(source, target, offset, length)

    monkeypatch.setattr(reflink, "clone_range", clone_range)
    again = shelf.place / "again"
    shelf.driver.clone(shelf.source, again, ourselves())
    assert tree(again) == tree(shelf.source)
    if shelf.driver.name == "reflink":
        assert len(lengths) > 3000 / 256, "a piece has few extents"
        assert max(lengths) < 4 * MB


def test_removing_may_be_repeated_and_begun_anywhere(shelf: Shelf) -> None:
    shelf.fill({"base/5/1": b"x"})
    volume = shelf.place / "volume"
    volume.mkdir()
    shelf.driver.clone(shelf.source, volume / "data", ourselves())
    (volume / "conf").mkdir()
    (volume / "data" / "base" / "5" / "1").unlink()
    for path in (volume, volume, shelf.place / "never" / "was", shelf.source, shelf.source):
        shelf.driver.remove(path)
    assert list(shelf.place.iterdir()) == []


def test_what_a_clone_shares_with_its_source_takes_no_room(shelf: Shelf) -> None:
    shelf.fill({f"base/5/{number}": os.urandom(5 * MB) for number in range(20)})
    before = shelf.used()
    copied = shelf.clone()
    if shelf.driver.name == "plain":
        told = sizes(copied)
        assert told.own + told.shared == 100 * MB
        return
    assert shelf.used() - before < 4 * MB
    assert sizes(copied) == sizes(shelf.source) == Sizes(own=0, shared=100 * MB)
    with (copied / "base" / "5" / "1").open("r+b") as file:
        file.write(os.urandom(3 * MB))
    assert sizes(copied) == Sizes(own=3 * MB, shared=97 * MB)
    assert shelf.used() - before >= 3 * MB


def test_a_file_of_many_extents_is_counted_to_its_end(shelf: Shelf) -> None:
    shelf.fill({})
    with (shelf.source / "scattered").open("wb") as file:
        file.truncate(64 * MB)
        for number in range(700):
            file.seek(number * 64 * 1024)
            file.write(os.urandom(4096))
    assert sizes(shelf.source).own == pytest.approx(700 * 4096, rel=0.1)


def test_what_a_file_system_can_do_is_found_out(shelf: Shelf) -> None:
    if shelf.driver.name in COPY_ON_WRITE:
        assert can_reflink(shelf.place)
    assert is_btrfs(shelf.place) == (shelf.driver.name == "btrfs")
    assert list(shelf.place.iterdir()) == []


def test_a_file_system_without_shared_blocks_says_so() -> None:
    require_cow()
    with loop_image("ext4", 64) as place:
        assert not can_reflink(place)
        assert not is_btrfs(place)

"""A pack restores exactly what was packed, or reports that it cannot."""

import os
from pathlib import Path

import pytest

from bough.engine.local.volumes.disk_usage import ApparentSize, measure_apparent_size
from bough.engine.local.volumes.pack_file import PackCorrupted, PackTooLarge, extract_pack, write_pack
from support.requirements import require_root
from support.storage import read_tree_metadata

NO_LIMIT = 2**40


def no_check() -> None:
    pass


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with everything that a tenant could put into a data directory."""
    data = tmp_path / "data"
    (data / "base" / "5" / "empty").mkdir(parents=True, mode=0o750)
    for number, size in enumerate((0, 1, 511, 512, 8192, 3_000_000)):
        (data / "base" / "5" / str(number)).write_bytes(os.urandom(size))
    (data / "zeros").write_bytes(bytes(2_000_000))
    (data / ("n" * 120)).mkdir()
    (data / ("n" * 120) / ("long" * 30)).write_text("of a long name")
    Path(os.fsdecode(os.fsencode(data) + b"/not \xff utf-8 \n")).write_text("odd")
    (data / "dangling").symlink_to("/nowhere/at/all")
    (data / "link").symlink_to("base/5")
    (data / "runs").write_text("#!/bin/sh\n")
    (data / "runs").chmod(0o755)
    return data


def pack(tree: Path, *, limit: int = NO_LIMIT) -> Path:
    file = tree.with_name("data.pack")
    write_pack({"data": tree}, file, limit=limit, check=no_check)
    return file


def unpack(file: Path, name: str = "back") -> Path:
    target = file.with_name(name)
    target.mkdir(mode=0o700)
    extract_pack(file, {"data": target}, no_check)
    return target


def without_times(tree: Path) -> dict[str, tuple[object, ...]]:
    return {name: metadata[:-1] for name, metadata in read_tree_metadata(tree).items()}


def test_all_comes_back_as_it_was(tree: Path) -> None:
    tree.chmod(0o700)
    file = pack(tree)
    restored = unpack(file)
    assert without_times(restored) == without_times(tree)
    assert restored.stat().st_mode == tree.stat().st_mode
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_size < measure_apparent_size(tree).total


def test_owners_come_back_too(tree: Path) -> None:
    require_root()
    for parent, folders, files in os.walk(tree):
        for name in (*folders, *files):
            os.chown(Path(parent, name), 200_123, 300_456, follow_symlinks=False)
    os.chown(tree, 200_123, 300_456)
    restored = unpack(pack(tree))
    assert without_times(restored) == without_times(tree)
    assert (restored.stat().st_uid, restored.stat().st_gid) == (200_123, 300_456)


def test_two_trees_are_kept_apart(tree: Path) -> None:
    wal = tree.with_name("wal")
    wal.mkdir()
    (wal / "000000010000000000000001").write_bytes(os.urandom(5000))
    file = tree.with_name("both.pack")
    write_pack({"data": tree, "wal": wal}, file, limit=NO_LIMIT, check=no_check)
    targets = {"data": tree.with_name("one"), "wal": tree.with_name("other")}
    for target in targets.values():
        target.mkdir()
    extract_pack(file, targets, no_check)
    assert without_times(targets["data"]) == without_times(tree)
    assert without_times(targets["wal"]) == without_times(wal)


def test_what_is_no_file_is_left_out_and_nobody_waits_for_it(tree: Path) -> None:
    before = without_times(tree)
    os.mkfifo(tree / "base" / "pipe")
    assert without_times(unpack(pack(tree))) == before


def test_a_pack_that_is_no_gain_is_given_up(tree: Path) -> None:
    with pytest.raises(PackTooLarge):
        pack(tree, limit=1_000_000)


def test_it_is_given_up_as_soon_as_there_is_no_room(tree: Path) -> None:
    (tree / "large").write_bytes(os.urandom(40_000_000))

    def refuse() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        write_pack({"data": tree}, tree.with_name("data.pack"), limit=NO_LIMIT, check=refuse)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_broken_pack_is_found_out(tree: Path, damage: str) -> None:
    file = pack(tree)
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(
        {
            "cut": content[:-9],
            "changed": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "empty": b"",
        }[damage]
    )
    with pytest.raises(PackCorrupted):
        unpack(file)


def test_what_a_tree_weighs_is_told_without_following_links(tree: Path) -> None:
    total = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    assert measure_apparent_size(tree) == ApparentSize(total, 3_000_000)

"""Slots with other output plugins, whose files a tenant may have written, are removed before a server starts."""

import os
from pathlib import Path

import pytest

from bough.engine.local.computes.foreign_slots import remove_foreign_slots
from bough.engine.local.tenant_file_checks import TenantFileError

_HEAD_BYTES = 129


def write_slot(data: Path, name: str, plugin: bytes) -> Path:
    folder = data / "pg_replslot" / name
    folder.mkdir(parents=True)
    (folder / "state").write_bytes(bytes(_HEAD_BYTES) + plugin.ljust(64, b"\0") + bytes(7))
    return folder


def list_slots(data: Path) -> set[str]:
    return {path.name for path in (data / "pg_replslot").iterdir() if not path.name.endswith(".tmp")}


def test_only_foreign_ones_are_removed(tmp_path: Path) -> None:
    for name, plugin in {
        "a": b"pgoutput",
        "b": b"test_decoding",
        "c": b"",
        "d": b"/tmp/x",
        "e": b"auto_explain",
    }.items():
        write_slot(tmp_path, name, plugin)
    for name in ("f", "g"):
        write_slot(tmp_path, name, b"$libdir/pgoutput")
    remove_foreign_slots(tmp_path)
    assert list_slots(tmp_path) == {"a", "b", "c"}
    write_slot(tmp_path, "h" * 250, b"./x")
    remove_foreign_slots(tmp_path)
    assert list_slots(tmp_path) == {"a", "b", "c"}


def test_a_plugin_of_the_greatest_length(tmp_path: Path) -> None:
    write_slot(tmp_path, "long", b"x" * 64)
    remove_foreign_slots(tmp_path)
    assert list_slots(tmp_path) == set()


def test_a_new_volume_has_none(tmp_path: Path) -> None:
    remove_foreign_slots(tmp_path)
    (tmp_path / "pg_replslot").mkdir()
    (tmp_path / "pg_replslot" / "empty").mkdir()
    (tmp_path / "pg_replslot" / "file").write_text("")
    (tmp_path / "pg_replslot" / "link").symlink_to("empty")
    remove_foreign_slots(tmp_path)
    assert list_slots(tmp_path) == {"empty", "file", "link"}


@pytest.mark.parametrize("kind", ["link", "pipe", "huge", "folder"])
def test_a_hostile_file_is_refused(tmp_path: Path, kind: str) -> None:
    state = write_slot(tmp_path, "slot", b"pgoutput") / "state"
    if kind == "huge":
        os.truncate(state, 1 << 40)
    else:
        state.unlink()
    if kind == "link":
        state.symlink_to("/etc/shadow")
    elif kind == "pipe":
        os.mkfifo(state)
    elif kind == "folder":
        state.mkdir()
    with pytest.raises(TenantFileError):
        remove_foreign_slots(tmp_path)


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = write_slot(tmp_path / "elsewhere", "slot", b"/tmp/x").parent
    (tmp_path / "pg_replslot").symlink_to(elsewhere)
    with pytest.raises(TenantFileError):
        remove_foreign_slots(tmp_path)
    assert list_slots(tmp_path / "elsewhere") == {"slot"}

"""A process of its own that puts a volume away and brings it back, and is killed before each thing it does to the disk.

For each place to be killed at a child is forked, which ends there at once, as by SIGKILL. What it left is then dealt
with by another, and must come to the same bytes. Prints how many places there were.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from bough.config import Settings
from bough.engine.local.computes.running import RunningComputes
from bough.engine.local.folders import Folders
from bough.engine.local.volume_packer import VolumePacker
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.ids import ProjectId, VolumeId
from support.storage import read_tree_metadata

KILLED_EXIT_CODE = 9
DISK_EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.chmod", "os.chown"}
VOLUME = VolumeId("vol-0000000000")


class PackedHome:
    """A home with one volume, whose WAL is apart."""

    def __init__(self, home: Path) -> None:
        self.folders = Folders(Settings(home=home, free_space_floor=0))
        self.volumes = Volumes(self.folders.volumes, self.folders.wal_archives)
        self.wal = home / "apart"
        self.volumes.configure(self.volumes.driver, self.wal)
        self.packing = VolumePacker(self.volumes, cast(RunningComputes, None), self.folders, floor=0)

    @property
    def folder(self) -> VolumeFolder:
        return self.volumes.folder(VOLUME)

    def fill(self) -> None:
        for path in (self.folders.volumes, self.wal):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        self.folder.create(VolumeRecord(project_id=ProjectId("quiet-sea-12345678"), install="17", wal_apart=True))
        (self.folder.data / "base" / "5").mkdir(parents=True)
        self.folder.data.chmod(0o700)
        self.folder.external_wal.mkdir(mode=0o700)
        (self.folder.data / "pg_wal").symlink_to(os.path.relpath(self.folder.external_wal, self.folder.data))
        for number in range(2):
            (self.folder.data / "base" / "5" / str(number)).write_bytes(f"{number}".encode() * 20_000)
        (self.folder.external_wal / "000000010000000000000001").write_bytes(b"wal" * 9_000)

    def pack(self) -> None:
        self.packing._archive(self.folder, self.packing._read_record(self.folder))

    def unpack(self) -> None:
        self.packing._restore(self.folder, self.packing._read_record(self.folder))

    def read_contents(self) -> dict[str, Any]:
        """All but times, and what is ours."""
        within = {"data": self.folder.data, "wal": self.folder.external_wal}
        return {
            name: {key: each[:-1] for key, each in read_tree_metadata(path).items()} for name, path in within.items()
        }

    def list_names(self) -> list[str]:
        """But for what is written over at the next write of its name."""
        return sorted(path.name for path in self.folder.path.iterdir() if not path.name.startswith("."))


def kill_at(place: int, work: Callable[[], None]) -> bool:
    """Whether it was killed before it was done."""
    child = os.fork()
    if child == 0:
        left = place

        def hook(event: str, _given: tuple[Any, ...]) -> None:
            nonlocal left
            if event in DISK_EVENTS:
                left -= 1
                if left == 0:
                    os._exit(KILLED_EXIT_CODE)

        sys.addaudithook(hook)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED_EXIT_CODE), f"killed at place {place}, it failed"
    return code == KILLED_EXIT_CODE


def check_packing(home: Path) -> dict[str, int]:
    made = PackedHome(home)
    made.fill()
    before, names = made.read_contents(), made.list_names()
    made.pack()
    assert made.list_names() == ["conf", "data.pack", "put-away", "volume.json"], made.list_names()
    assert not made.folder.external_wal.exists()
    assert made.folder.owner.uid == os.geteuid()
    made.unpack()
    assert (made.read_contents(), made.list_names()) == (before, names)
    return {
        "pack": _kill_at_every_event(made, made.pack, before, names, begun=lambda: None),
        "unpack": _kill_at_every_event(made, made.unpack, before, names, begun=made.pack),
    }


def _kill_at_every_event(
    made: PackedHome, work: Callable[[], None], before: object, names: list[str], *, begun: Callable[[], None]
) -> int:
    count = 1
    while True:
        for again in (False, True):
            made.fill()
            begun()
            if not kill_at(count, work):
                return count
            if again:
                work()
            made.unpack()
            assert (made.read_contents(), made.list_names()) == (before, names), (
                f"killed at place {count}, again: {again}"
            )
        count += 1


if __name__ == "__main__":
    print(json.dumps(check_packing(Path(sys.argv[1]))))

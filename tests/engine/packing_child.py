"""A process that packs and unpacks a volume and is killed before each change that it makes to the disk.

For each point to be killed at, a child is forked, which exits there at once, as by SIGKILL. Another run then continues
with what it left, and must end with the same bytes. Prints how many points there were.
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
    """A home with one volume, whose WAL is outside its data directory."""

    def __init__(self, home: Path) -> None:
        self.folders = Folders(Settings(home=home, free_space_floor=0))
        self.volumes = Volumes(self.folders.volumes, self.folders.wal_archives)
        self.wal = home / "external-wal"
        self.volumes.configure(self.volumes.driver, self.wal)
        self.packer = VolumePacker(self.volumes, cast(RunningComputes, None), self.folders, floor=0)

    @property
    def folder(self) -> VolumeFolder:
        return self.volumes.folder(VOLUME)

    def fill(self) -> None:
        for path in (self.folders.volumes, self.wal):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        self.folder.create(
            VolumeRecord(project_id=ProjectId("quiet-sea-12345678"), template="debian-17.12", has_external_wal=True)
        )
        (self.folder.data / "base" / "5").mkdir(parents=True)
        self.folder.data.chmod(0o700)
        self.folder.external_wal.mkdir(mode=0o700)
        (self.folder.data / "pg_wal").symlink_to(os.path.relpath(self.folder.external_wal, self.folder.data))
        for number in range(2):
            (self.folder.data / "base" / "5" / str(number)).write_bytes(f"{number}".encode() * 20_000)
        (self.folder.external_wal / "000000010000000000000001").write_bytes(b"wal" * 9_000)

    def pack(self) -> None:
        self.packer._pack(self.folder, self.packer._read_record(self.folder))

    def unpack(self) -> None:
        self.packer._ensure_unpacked(self.folder, self.packer._read_record(self.folder))

    def read_contents(self) -> dict[str, Any]:
        """Return the tenant's files without their times."""
        folders = {"data": self.folder.data, "wal": self.folder.external_wal}
        return {
            name: {key: metadata[:-1] for key, metadata in read_tree_metadata(path).items()}
            for name, path in folders.items()
        }

    def list_names(self) -> list[str]:
        """Return the names in the folder, without temporary files, which the next write replaces."""
        return sorted(path.name for path in self.folder.path.iterdir() if not path.name.startswith("."))


def kill_at(point: int, work: Callable[[], None]) -> bool:
    """Return whether the work was killed before it ended."""
    child = os.fork()
    if child == 0:
        remaining = point

        def hook(event: str, _arguments: tuple[Any, ...]) -> None:
            nonlocal remaining
            if event in DISK_EVENTS:
                remaining -= 1
                if remaining == 0:
                    os._exit(KILLED_EXIT_CODE)

        sys.addaudithook(hook)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED_EXIT_CODE), f"killed at point {point}, it failed"
    return code == KILLED_EXIT_CODE


def check_packing(home: Path) -> dict[str, int]:
    packed_home = PackedHome(home)
    packed_home.fill()
    before, names = packed_home.read_contents(), packed_home.list_names()
    packed_home.pack()
    assert packed_home.list_names() == ["conf", "data.pack", "put-away", "volume.json"], packed_home.list_names()
    assert not packed_home.folder.external_wal.exists()
    assert packed_home.folder.owner.uid == os.geteuid()
    packed_home.unpack()
    assert (packed_home.read_contents(), packed_home.list_names()) == (before, names)
    return {
        "pack": _kill_at_every_event(packed_home, packed_home.pack, before, names, prepare=lambda: None),
        "unpack": _kill_at_every_event(packed_home, packed_home.unpack, before, names, prepare=packed_home.pack),
    }


def _kill_at_every_event(
    home: PackedHome, work: Callable[[], None], before: object, names: list[str], *, prepare: Callable[[], None]
) -> int:
    count = 1
    while True:
        for again in (False, True):
            home.fill()
            prepare()
            if not kill_at(count, work):
                return count
            if again:
                work()
            home.unpack()
            assert (home.read_contents(), home.list_names()) == (before, names), (
                f"killed at point {count}, again: {again}"
            )
        count += 1


if __name__ == "__main__":
    print(json.dumps(check_packing(Path(sys.argv[1]))))

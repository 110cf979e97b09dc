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
from bough.engine.local.computes.living import Living
from bough.engine.local.folders import Folders
from bough.engine.local.packing import Packing
from bough.engine.local.volumes.folder import VolumeFolder, VolumeRecord
from bough.engine.local.volumes.volumes import Volumes
from bough.ids import ProjectId, VolumeId
from storages import picture

KILLED = 9
TOUCHES = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.chmod", "os.chown"}
VOLUME = VolumeId("vol-0000000000")


class Place:
    """A home with one volume, whose WAL is apart."""

    def __init__(self, home: Path) -> None:
        self.folders = Folders(Settings(home=home, free_space_floor=0))
        self.volumes = Volumes(self.folders.volumes, self.folders.history)
        self.wal = home / "apart"
        self.volumes.use(self.volumes.driver, self.wal)
        self.packing = Packing(self.volumes, cast(Living, None), self.folders, floor=0)

    @property
    def folder(self) -> VolumeFolder:
        return self.volumes.folder(VOLUME)

    def fill(self) -> None:
        for path in (self.folders.volumes, self.wal):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        self.folder.begin(VolumeRecord(project_id=ProjectId("quiet-sea-12345678"), install="17", wal_apart=True))
        (self.folder.data / "base" / "5").mkdir(parents=True)
        self.folder.data.chmod(0o700)
        self.folder.wal_apart.mkdir(mode=0o700)
        (self.folder.data / "pg_wal").symlink_to(os.path.relpath(self.folder.wal_apart, self.folder.data))
        for number in range(2):
            (self.folder.data / "base" / "5" / str(number)).write_bytes(f"{number}".encode() * 20_000)
        (self.folder.wal_apart / "000000010000000000000001").write_bytes(b"wal" * 9_000)

    def put_away(self) -> None:
        self.packing._put_away(self.folder, self.packing._known(self.folder))

    def bring_back(self) -> None:
        self.packing._bring_back(self.folder, self.packing._known(self.folder))

    def seen(self) -> dict[str, Any]:
        """All but times, and what is ours."""
        within = {"data": self.folder.data, "wal": self.folder.wal_apart}
        return {name: {key: each[:-1] for key, each in picture(path).items()} for name, path in within.items()}

    def names(self) -> list[str]:
        """But for what is written over at the next write of its name."""
        return sorted(path.name for path in self.folder.path.iterdir() if not path.name.startswith("."))


def killed_at(place: int, work: Callable[[], None]) -> bool:
    """Whether it was killed before it was done."""
    child = os.fork()
    if child == 0:
        left = place

        def hook(event: str, _given: tuple[Any, ...]) -> None:
            nonlocal left
            if event in TOUCHES:
                left -= 1
                if left == 0:
                    os._exit(KILLED)

        sys.addaudithook(hook)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED), f"killed at place {place}, it failed"
    return code == KILLED


def check(home: Path) -> dict[str, int]:
    made = Place(home)
    made.fill()
    before, names = made.seen(), made.names()
    made.put_away()
    assert made.names() == ["conf", "data.pack", "put-away", "volume.json"], made.names()
    assert not made.folder.wal_apart.exists()
    assert made.folder.owner.uid == os.geteuid()
    made.bring_back()
    assert (made.seen(), made.names()) == (before, names)
    return {
        "pack": _everywhere(made, made.put_away, before, names, begun=lambda: None),
        "unpack": _everywhere(made, made.bring_back, before, names, begun=made.put_away),
    }


def _everywhere(
    made: Place, work: Callable[[], None], before: object, names: list[str], *, begun: Callable[[], None]
) -> int:
    count = 1
    while True:
        for again in (False, True):
            made.fill()
            begun()
            if not killed_at(count, work):
                return count
            if again:
                work()
            made.bring_back()
            assert (made.seen(), made.names()) == (before, names), f"killed at place {count}, again: {again}"
        count += 1


if __name__ == "__main__":
    print(json.dumps(check(Path(sys.argv[1]))))

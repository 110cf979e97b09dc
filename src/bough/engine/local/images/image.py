"""The storage image: a file with a file system that can clone, mounted in the home.

The record `storage.json` says that the home has one; a marker inside the image carries the same id.
So a store that is not mounted is seen as that, and never taken for an empty platform.
"""

import json
import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

from bough.config import is_root
from bough.engine.local.durable_files import sync_folder, write_atomically
from bough.engine.local.images import mounts
from bough.engine.local.images.mounts import CommandFailed
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.port import EngineError

FileSystem = Literal["xfs", "btrfs"]

RECORD_FILE = "storage.json"
DRAFT_FILE = "storage.json.making"  # the record of an image that is being made
MARKER_FILE = ".bough-storage"
MOUNT_POINT = "storage"
IMAGE_FOLDERS = ("volumes", "templates")  # the folders that are in the image, or without one in the home

# Tenants' files are never programs, devices or libraries of ours.
_OPTIONS = ("noatime", "nodev", "nosuid", "noexec")
# An allocated image keeps what it has; a thin one gives freed space back to the file system below.
_FREEING: dict[tuple[FileSystem, bool], tuple[str, ...]] = {
    ("xfs", False): (),
    ("xfs", True): ("discard",),
    ("btrfs", False): ("nodiscard",),
    ("btrfs", True): ("discard=async",),
}
_REPAIR: dict[FileSystem, str] = {"xfs": "xfs_repair -n", "btrfs": "btrfs check"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    home: Path
    id: str
    file: Path
    fs: FileSystem
    thin: bool
    size: int  # bytes
    is_unfinished: bool = True  # its file may lack its name still, and the home may hold what was moved in

    @classmethod
    def plan(cls, home: Path, file: Path, *, fs: FileSystem, thin: bool, size: int) -> Self:
        return cls(home=home, id=uuid.uuid4().hex, file=file, fs=fs, thin=thin, size=size)

    @classmethod
    def load(cls, home: Path) -> Self | None:
        """The image of the home; None when its volumes are in the home itself."""
        return cls._read(home, RECORD_FILE)

    @classmethod
    def load_draft(cls, home: Path) -> Self | None:
        """The image that somebody began to make."""
        return cls._read(home, DRAFT_FILE)

    @classmethod
    def _read(cls, home: Path, name: str) -> Self | None:
        try:
            fields: dict[str, Any] = json.loads((home / name).read_text())
            # A file inside the home is kept by its name there: a home may be moved.
            return cls(
                home=home, file=home / fields.pop("image"), is_unfinished=fields.pop("unfinished", False), **fields
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EngineError(f"The record {home / name} cannot be read: {error}.", transient=False) from error

    @property
    def mount_point(self) -> Path:
        return self.home / MOUNT_POINT

    @property
    def staging_file(self) -> Path:
        """Where the file is until it is whole."""
        return self.file.with_name(self.file.name + ".making")

    def write_record(self, name: str) -> None:
        inside = self.file.relative_to(self.home) if self.file.is_relative_to(self.home) else self.file
        fields = {"id": self.id, "image": str(inside), "fs": self.fs, "thin": self.thin, "size": self.size}
        unfinished = {"unfinished": True} if self.is_unfinished else {}
        write_atomically(self.home / name, json.dumps(fields | unfinished), mode=0o644, durable=True)

    def is_mounted(self) -> bool:
        return self._read_marker() == self.id

    def check_mounted(self) -> None:
        if not self.is_mounted():
            raise EngineError(
                f"The storage {self.file} is not mounted at {self.mount_point}, so nothing can be made or started: "
                f"run `bough restart --home {self.home}`, or `bough up --home {self.home}` if it is stopped."
            )

    def explain_mount_problem(self) -> str | None:
        """Why it is not mounted and cannot be; None when it is or can be."""
        if self.is_mounted():
            return None
        if self.mount_point.is_mount():
            what = "Another storage" if self._read_marker() else "Something else"
            return (
                f"{what} is mounted at {self.mount_point}, where {self.file} belongs: run `umount {self.mount_point}`."
            )
        if not is_root():
            return (
                f"The storage of {self.home} is not mounted, and only root can mount it: "
                f"run `sudo bough up --home {self.home}`."
            )
        if not self.file.exists() and not (self.is_unfinished and self.staging_file.exists()):
            return (
                f"The storage image {self.file} is missing: put it back, "
                f'or write where it is now after "image" in {self.home / RECORD_FILE}.'
            )
        return None

    def ensure_mounted(self) -> None:
        """Mounted, and truly ours. For root."""
        if self.is_mounted():
            return
        if problem := self.explain_mount_problem():
            raise EngineError(problem, transient=False)
        if not self.file.exists():
            self._take_name()
        self.mount(self.file)
        if seen := self._explain_wrong_marker():
            self.unmount()
            raise EngineError(seen, transient=False)

    def mount(self, file: Path) -> None:
        # Closed, and without the folders inside: nothing can be written under it while nothing is mounted.
        self.mount_point.mkdir(mode=0o000, exist_ok=True)
        try:
            mounts.mount(file, self.mount_point, self.fs, (*_OPTIONS, *_FREEING[self.fs, self.thin]))
        except CommandFailed as error:
            raise EngineError(
                f"The storage image {file} could not be mounted: {error}. "
                f"`dmesg | tail` says more, and `{_REPAIR[self.fs]} {file}` looks for damage.",
                transient=False,
            ) from None

    def unmount(self) -> None:
        try:
            mounts.unmount(self.mount_point)
        except CommandFailed as error:
            raise EngineError(f"The storage at {self.mount_point} could not be unmounted: {error}.") from None

    def finish_setup(self) -> None:
        """What is left to do once the record is there, after a crash too."""
        self.check_mounted()
        self._take_name()
        for moved in (self.home / name for name in IMAGE_FOLDERS):
            if moved.exists():
                remove_tree(moved)
        replace(self, is_unfinished=False).write_record(RECORD_FILE)

    def _take_name(self) -> None:
        if self.staging_file.exists():
            self.staging_file.rename(self.file)
            sync_folder(self.file.parent)

    def _read_marker(self) -> str | None:
        """The id in the marker at the mount point. Asked before every start, so in few calls."""
        try:
            descriptor = os.open(f"{self.mount_point}/{MARKER_FILE}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(descriptor, 256).decode(errors="replace").strip()
        except OSError:
            return None
        finally:
            os.close(descriptor)

    def _explain_wrong_marker(self) -> str | None:
        seen = self._read_marker()
        if seen is None:
            return (
                f"The image {self.file} is no storage of Bough, for it has no marker {MARKER_FILE}: put the "
                "right one back."
            )
        if seen != self.id:
            return (
                f"The image {self.file} is the storage of another home (its id is {seen}, not {self.id}): "
                "put the right one back."
            )
        return None

"""The storage image: a file with a file system that can clone, mounted in the home.

The record `storage.json` says that the home has one, and a marker inside the image carries the same id. So an image
that is not mounted is detected, and never mistaken for an empty home.
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
DRAFT_FILE = "storage.json.making"  # the record of an image that is being created
MARKER_FILE = ".bough-storage"
MOUNT_POINT = "storage"
IMAGE_FILE = "storage.img"  # in the home, unless the operator chooses another path
IMAGE_FOLDERS = ("volumes", "templates")  # in the image; in the home if there is none

# Files of tenants are never executed and are never devices.
_OPTIONS = ("noatime", "nodev", "nosuid", "noexec")
# Of a thin image with XFS, `ThinSpace` returns the freed space to the file system below.
_DISCARD_OPTIONS: dict[tuple[FileSystem, bool], tuple[str, ...]] = {
    ("xfs", False): (),
    ("xfs", True): (),
    ("btrfs", False): ("nodiscard",),
    ("btrfs", True): ("discard=async",),
}
_CHECK_COMMANDS: dict[FileSystem, str] = {"xfs": "xfs_repair -n", "btrfs": "btrfs check"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    home: Path
    id: str
    file: Path
    fs: FileSystem
    thin: bool
    size: int  # bytes
    is_unfinished: bool = True  # the file may have its temporary name, and the home the folders that were copied

    @classmethod
    def plan(cls, home: Path, file: Path, *, fs: FileSystem, thin: bool, size: int) -> Self:
        return cls(home=home, id=uuid.uuid4().hex, file=file, fs=fs, thin=thin, size=size)

    @classmethod
    def load(cls, home: Path) -> Self | None:
        """Return the image of the home; None if its volumes are in the home itself."""
        return cls._read(home, RECORD_FILE)

    @classmethod
    def load_draft(cls, home: Path) -> Self | None:
        """Return the image whose creation was interrupted."""
        return cls._read(home, DRAFT_FILE)

    @classmethod
    def _read(cls, home: Path, name: str) -> Self | None:
        try:
            fields: dict[str, Any] = json.loads((home / name).read_text())
            # The path of a file inside the home is relative, because a home may be moved.
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
        """The path of the file until it is complete."""
        return self.file.with_name(self.file.name + ".making")

    def write_record(self, name: str) -> None:
        path = self.file.relative_to(self.home) if self.file.is_relative_to(self.home) else self.file
        fields = {"id": self.id, "image": str(path), "fs": self.fs, "thin": self.thin, "size": self.size}
        unfinished = {"unfinished": True} if self.is_unfinished else {}
        write_atomically(self.home / name, json.dumps(fields | unfinished), mode=0o644, durable=True)

    def is_mounted(self) -> bool:
        return self._read_marker() == self.id

    def check_mounted(self) -> None:
        if not self.is_mounted():
            raise EngineError(
                f"The storage {self.file} is not mounted at {self.mount_point}, so nothing can be created or started: "
                f"run `bough restart --home {self.home}`, or `bough up --home {self.home}` if it is stopped."
            )

    def explain_mount_problem(self) -> str | None:
        """Return why it is not mounted and cannot be; None if it is or can be mounted."""
        if self.is_mounted():
            return None
        if self.mount_point.is_mount():
            what = "Another storage image" if self._read_marker() else "Another file system"
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
                f"The storage image {self.file} is missing: restore it, "
                f'or set "image" in {self.home / RECORD_FILE} to its new path.'
            )
        return None

    def ensure_mounted(self) -> None:
        """Mount it if necessary and check its marker. Requires root."""
        if self.is_mounted():
            return
        if problem := self.explain_mount_problem():
            raise EngineError(problem, transient=False)
        if not self.file.exists():
            self._rename_staging_file()
        self.mount(self.file)
        if problem := self._explain_wrong_marker():
            self.unmount()
            raise EngineError(problem, transient=False)

    def mount(self, file: Path) -> None:
        # Mode 000 and no folders in it, so that nothing is written below the mount point while it is not mounted.
        self.mount_point.mkdir(mode=0o000, exist_ok=True)
        try:
            mounts.mount(file, self.mount_point, self.fs, (*_OPTIONS, *_DISCARD_OPTIONS[self.fs, self.thin]))
        except CommandFailed as error:
            raise EngineError(
                f"The storage image {file} could not be mounted: {error}. "
                f"See `dmesg | tail`, and check the file system with `{_CHECK_COMMANDS[self.fs]} {file}`.",
                transient=False,
            ) from None

    def unmount(self) -> None:
        try:
            mounts.unmount(self.mount_point)
        except CommandFailed as error:
            raise EngineError(f"The storage at {self.mount_point} could not be unmounted: {error}.") from None

    def finish_setup(self) -> None:
        """Finish what remains once the record exists; also after a crash."""
        self.check_mounted()
        self._rename_staging_file()
        for source in (self.home / name for name in IMAGE_FOLDERS):
            if source.exists():
                remove_tree(source)
        replace(self, is_unfinished=False).write_record(RECORD_FILE)

    def _rename_staging_file(self) -> None:
        if self.staging_file.exists():
            self.staging_file.rename(self.file)
            sync_folder(self.file.parent)

    def _read_marker(self) -> str | None:
        """Return the id in the marker at the mount point. Runs before every start, so it makes few calls."""
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
        marker = self._read_marker()
        if marker is None:
            return (
                f"The image {self.file} is not a storage image of Bough: it has no marker {MARKER_FILE}. "
                "Restore the right file."
            )
        if marker != self.id:
            return (
                f"The image {self.file} is the storage of another home (its id is {marker}, not {self.id}): "
                "restore the right file."
            )
        return None

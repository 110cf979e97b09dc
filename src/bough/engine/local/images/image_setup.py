"""Creates a storage image and moves the volumes of a home into it.

A draft of the record says what is being created, and where. Renaming the draft to the record is the moment from which
the home has an image. A crash before that has changed nothing, and the next attempt removes its leftovers; what is
missing after it, the next start finishes.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bough.engine.local.durable_files import sync_filesystem, sync_folder
from bough.engine.local.images import allocation, mounts
from bough.engine.local.images.folder_migration import FolderMigration
from bough.engine.local.images.image import DRAFT_FILE, IMAGE_FOLDERS, MARKER_FILE, RECORD_FILE, FileSystem, Image
from bough.engine.local.images.mounts import CommandFailed
from bough.engine.local.progress import Progress
from bough.engine.local.volumes.driver_choice import choose_driver
from bough.engine.port import EngineError

# Sectors of 4 KB, because the disk below may have them and direct I/O must be aligned to them.
_FORMAT: dict[FileSystem, tuple[str, ...]] = {
    "xfs": ("mkfs.xfs", "-q", "-K", "-L", "bough", "-m", "reflink=1", "-s", "size=4096"),
    "btrfs": ("mkfs.btrfs", "--quiet", "--nodiscard", "--label", "bough"),
}
# A downloaded program may be newer than the kernel. These features are its defaults, and need Linux 5.19.
_FORMAT_FOR_OLD_KERNELS = ("-i", "nrext64=0", "-m", "rmapbt=0")
PACKAGES: dict[FileSystem, str] = {"xfs": "xfsprogs", "btrfs": "btrfs-progs"}

FetchMkfs = Callable[[], Path]  # gets `mkfs.xfs` for a machine without it


def find_missing_package(fs: FileSystem) -> str | None:
    """Return the package to install before such an image can be created."""
    return None if shutil.which(_FORMAT[fs][0], path=mounts.ENVIRONMENT["PATH"]) else PACKAGES[fs]


def create_image(image: Image, floor: int, progress: Progress, fetch_mkfs: FetchMkfs | None = None) -> int:
    """Create and mount the image with all volumes and templates of the home in it; returns the bytes moved.

    The platform must not be running. Requires root.
    """
    remove_draft(image.home)
    _check_mount_point(image)
    with _drafted(image):
        allocation.allocate(image.staging_file, image.size, thin=image.thin, progress=progress)
        _check_loop_devices(image)
        command = _find_format_command(image.fs, fetch_mkfs)
        progress(f"creating {image.fs}", 0, 1)
        _format(image, command)
        image.mount(image.staging_file)
        progress(f"creating {image.fs}", 1, 1)
        moved = _fill(image, floor, progress)
        _commit(image)
    image.finish_setup()
    return moved


def remove_draft(home: Path) -> None:
    """Remove what an interrupted creation left."""
    draft = Image.load_draft(home)
    if draft is None:
        return
    if mounts.find_backing_file(draft.mount_point) == draft.staging_file.resolve():
        draft.unmount()
    if draft.staging_file.exists():
        with suppress(CommandFailed):  # its user detaches it later
            mounts.detach_all(draft.staging_file)
        draft.staging_file.unlink()
    with suppress(OSError):  # not empty, so not created by the platform
        draft.mount_point.rmdir()
    (home / DRAFT_FILE).unlink()


def _check_mount_point(image: Image) -> None:
    if image.mount_point.is_mount():
        raise EngineError(
            f"Another file system is mounted at {image.mount_point}: run `umount {image.mount_point}` first.",
            transient=False,
        )
    if image.mount_point.exists() and any(image.mount_point.iterdir()):
        raise EngineError(
            f"The folder {image.mount_point}, where the image will be mounted, is not empty: "
            f"run `mv {image.mount_point} {image.mount_point}.old` first.",
            transient=False,
        )


@contextmanager
def _drafted(image: Image) -> Iterator[None]:
    image.write_record(DRAFT_FILE)
    try:
        yield
    except BaseException:
        remove_draft(image.home)
        raise


def _check_loop_devices(image: Image) -> None:
    """Try it, because a container has the programs and often no devices."""
    try:
        mounts.check_attachable(image.staging_file)
    except CommandFailed as error:
        raise EngineError(f"This machine or container offers no loop device: {error}.", transient=False) from None


def _find_format_command(fs: FileSystem, fetch_mkfs: FetchMkfs | None) -> Sequence[str | Path]:
    program, *options = _FORMAT[fs]
    if fs == "xfs" and fetch_mkfs is not None and find_missing_package(fs):
        return fetch_mkfs(), *options, *_FORMAT_FOR_OLD_KERNELS
    return program, *options


def _format(image: Image, command: Sequence[str | Path]) -> None:
    try:
        mounts.run_command(*command, image.staging_file)
    except CommandFailed as error:
        raise EngineError(f"The image could not be formatted: {error}.", transient=False) from None


def _fill(image: Image, floor: int, progress: Progress) -> int:
    """Keep the image closed until it is complete, so that the owners of the files cannot change them."""
    image.mount_point.chmod(0o700)
    (image.mount_point / MARKER_FILE).write_text(f"{image.id}\n")
    (image.mount_point / MARKER_FILE).chmod(0o644)
    migration = FolderMigration(image.home, image.mount_point, IMAGE_FOLDERS, progress)
    _check_free_space(image, migration.total_bytes, floor)
    migration.run(choose_driver("auto", image.mount_point))
    image.mount_point.chmod(0o711)
    return migration.total_bytes


def _check_free_space(image: Image, needed: int, floor: int) -> None:
    """A thin image has the space it promises only if the disk below it has."""
    file_systems = {"the image has": (image.mount_point, "set a larger --size")}
    if image.thin:
        file_systems[f"the disk of {image.file.parent} has"] = (image.file.parent, "free some space there")
    for what, (folder, fix) in file_systems.items():
        if shutil.disk_usage(folder).free < needed + floor:
            raise EngineError(
                f"The volumes and templates of {image.home} take {needed // 1024**2} MB and {floor // 1024**2} MB must "
                f"stay free (free_space_floor), which is more than {what}: {fix}.",
                transient=False,
            )


def _commit(image: Image) -> None:
    sync_filesystem(image.mount_point)
    sync_folder(image.staging_file.parent)
    (image.home / DRAFT_FILE).rename(image.home / RECORD_FILE)
    sync_folder(image.home)

"""Making a storage image, and moving in what the home holds.

A draft of the record says what is being made, and where; the record itself, which takes the draft's
place in one move, is the moment from which the home has an image. A crash before it has changed
nothing, and what it left is cleared away by the next try; what is open after it, a start finishes.
"""

import shutil
from collections.abc import Iterator
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

# Sectors of 4 KB, because the disk below may have such ones and direct I/O goes by them.
_FORMAT: dict[FileSystem, tuple[str, ...]] = {
    "xfs": ("mkfs.xfs", "-q", "-K", "-L", "bough", "-m", "reflink=1", "-s", "size=4096"),
    "btrfs": ("mkfs.btrfs", "--quiet", "--nodiscard", "--label", "bough"),
}
PACKAGES: dict[FileSystem, str] = {"xfs": "xfsprogs", "btrfs": "btrfs-progs"}


def find_missing_package(fs: FileSystem) -> str | None:
    """What to install before such an image can be made."""
    return None if shutil.which(_FORMAT[fs][0], path=mounts.ENVIRONMENT["PATH"]) else PACKAGES[fs]


def create_image(image: Image, floor: int, progress: Progress) -> int:
    """The home has the image, mounted, with all its volumes and templates in it; the bytes moved.

    For a home that nobody serves, as root.
    """
    remove_draft(image.home)
    _check_mount_point(image)
    with _drafted(image):
        allocation.allocate(image.staging_file, image.size, thin=image.thin, progress=progress)
        progress(f"making {image.fs}", 0, 1)
        _format(image)
        image.mount(image.staging_file)
        progress(f"making {image.fs}", 1, 1)
        moved = _fill(image, floor, progress)
        _commit(image)
    image.finish_setup()
    return moved


def remove_draft(home: Path) -> None:
    """Nothing is left of an image whose making ended early."""
    draft = Image.load_draft(home)
    if draft is None:
        return
    if mounts.find_backing_file(draft.mount_point) == draft.staging_file.resolve():
        draft.unmount()
    if draft.staging_file.exists():
        with suppress(CommandFailed):  # what still holds it lets go of it later
            mounts.detach_all(draft.staging_file)
        draft.staging_file.unlink()
    with suppress(OSError):  # not empty, so not ours
        draft.mount_point.rmdir()
    (home / DRAFT_FILE).unlink()


def _check_mount_point(image: Image) -> None:
    if image.mount_point.is_mount():
        raise EngineError(
            f"Something else is mounted at {image.mount_point}: run `umount {image.mount_point}` first.",
            transient=False,
        )
    if image.mount_point.exists() and any(image.mount_point.iterdir()):
        raise EngineError(
            f"The folder {image.mount_point}, where the image is to be mounted, is not empty: "
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


def _format(image: Image) -> None:
    try:
        mounts.run_command(*_FORMAT[image.fs], image.staging_file)
    except CommandFailed as error:
        raise EngineError(f"The image could not be made: {error}.", transient=False) from None


def _fill(image: Image, floor: int, progress: Progress) -> int:
    """Closed until it is whole: the owners of what is moved in must not be there meanwhile."""
    image.mount_point.chmod(0o700)
    (image.mount_point / MARKER_FILE).write_text(f"{image.id}\n")
    (image.mount_point / MARKER_FILE).chmod(0o644)
    move = FolderMigration(image.home, image.mount_point, IMAGE_FOLDERS, progress)
    _check_free_space(image, move.total_bytes, floor)
    move.run(choose_driver("auto", image.mount_point))
    image.mount_point.chmod(0o711)
    return move.total_bytes


def _check_free_space(image: Image, needed: int, floor: int) -> None:
    """A thin image has the room it promises only if the disk under it has it, too."""
    places = {"the image has": (image.mount_point, "give a larger --size")}
    if image.thin:
        places[f"the disk of {image.file.parent} has"] = (image.file.parent, "free some space there")
    for what, (folder, mend) in places.items():
        if shutil.disk_usage(folder).free < needed + floor:
            raise EngineError(
                f"The volumes and templates of {image.home} take {needed // 1024**2} MB, and {floor // 1024**2} MB are "
                f"to stay free (free_space_floor), which is more than {what}: {mend}.",
                transient=False,
            )


def _commit(image: Image) -> None:
    sync_filesystem(image.mount_point)
    sync_folder(image.staging_file.parent)
    (image.home / DRAFT_FILE).rename(image.home / RECORD_FILE)
    sync_folder(image.home)

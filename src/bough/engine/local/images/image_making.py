"""Making a storage image, and moving in what the home holds.

A draft of the record says what is being made, and where; the record itself, which takes the draft's
place in one move, is the moment from which the home has an image. A crash before it has changed
nothing, and what it left is cleared away by the next try; what is open after it, a start finishes.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bough.engine.local.durable import sync_filesystem, sync_folder
from bough.engine.local.images import allocating, mounts
from bough.engine.local.images.image import DRAFT, INSIDE, MARKER, RECORD, FileSystem, Image
from bough.engine.local.images.mounts import CommandFailed
from bough.engine.local.images.moving import Move
from bough.engine.local.progress import Progress
from bough.engine.local.volumes.detect import choose
from bough.engine.port import EngineError

# Sectors of 4 KB, because the disk below may have such ones and direct I/O goes by them.
_FORMAT: dict[FileSystem, tuple[str, ...]] = {
    "xfs": ("mkfs.xfs", "-q", "-K", "-L", "bough", "-m", "reflink=1", "-s", "size=4096"),
    "btrfs": ("mkfs.btrfs", "--quiet", "--nodiscard", "--label", "bough"),
}
PACKAGES: dict[FileSystem, str] = {"xfs": "xfsprogs", "btrfs": "btrfs-progs"}


def missing_package(fs: FileSystem) -> str | None:
    """What to install before such an image can be made."""
    return None if shutil.which(_FORMAT[fs][0], path=mounts.ENVIRONMENT["PATH"]) else PACKAGES[fs]


def make(image: Image, floor: int, progress: Progress) -> int:
    """The home has the image, mounted, with all its volumes and templates in it; the bytes moved.

    For a home that nobody serves, as root.
    """
    clear_away(image.home)
    _check_place(image)
    with _drafted(image):
        allocating.allocate(image.making, image.size, thin=image.thin, progress=progress)
        progress(f"making {image.fs}", 0, 1)
        _format(image)
        image.mount(image.making)
        progress(f"making {image.fs}", 1, 1)
        moved = _fill(image, floor, progress)
        _commit(image)
    image.finish()
    return moved


def clear_away(home: Path) -> None:
    """Nothing is left of an image whose making ended early."""
    draft = Image.drafted(home)
    if draft is None:
        return
    if mounts.file_at(draft.root) == draft.making.resolve():
        draft.unmount()
    if draft.making.exists():
        with suppress(CommandFailed):  # what still holds it lets go of it later
            mounts.detach_all(draft.making)
        draft.making.unlink()
    with suppress(OSError):  # not empty, so not ours
        draft.root.rmdir()
    (home / DRAFT).unlink()


def _check_place(image: Image) -> None:
    if image.root.is_mount():
        raise EngineError(
            f"Something else is mounted at {image.root}: run `umount {image.root}` first.", transient=False
        )
    if image.root.exists() and any(image.root.iterdir()):
        raise EngineError(
            f"The folder {image.root}, where the image is to be mounted, is not empty: "
            f"run `mv {image.root} {image.root}.old` first.",
            transient=False,
        )


@contextmanager
def _drafted(image: Image) -> Iterator[None]:
    image.write(DRAFT)
    try:
        yield
    except BaseException:
        clear_away(image.home)
        raise


def _format(image: Image) -> None:
    try:
        mounts.run(*_FORMAT[image.fs], image.making)
    except CommandFailed as error:
        raise EngineError(f"The image could not be made: {error}.", transient=False) from None


def _fill(image: Image, floor: int, progress: Progress) -> int:
    """Closed until it is whole: the owners of what is moved in must not be there meanwhile."""
    image.root.chmod(0o700)
    (image.root / MARKER).write_text(f"{image.id}\n")
    (image.root / MARKER).chmod(0o644)
    move = Move(image.home, image.root, INSIDE, progress)
    _check_room(image, move.total, floor)
    move.run(choose("auto", image.root))
    image.root.chmod(0o711)
    return move.total


def _check_room(image: Image, needed: int, floor: int) -> None:
    """A thin image has the room it promises only if the disk under it has it, too."""
    places = {"the image has": (image.root, "give a larger --size")}
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
    sync_filesystem(image.root)
    sync_folder(image.making.parent)
    (image.home / DRAFT).rename(image.home / RECORD)
    sync_folder(image.home)

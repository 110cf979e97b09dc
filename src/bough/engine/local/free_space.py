"""Checks the free space: below a floor nothing new is created, so that running computes can go on writing."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bough.engine.local.folders import Folders
from bough.engine.local.images import thin_space
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.port import EngineError


def explain_rejection(folders: Folders, floor: int) -> str | None:
    """Return why nothing new can be created now; None if it can."""
    try:
        with translate_os_errors():
            check_can_create(folders, floor)
    except EngineError as error:
        return error.public_message
    return None


def check_can_create(folders: Folders, floor: int) -> None:
    """Check before creating anything that the storage is mounted and has free space."""
    folders.check_storage()
    check_free_space(folders, floor)


def check_free_space(folders: Folders, floor: int) -> None:
    if shortage := explain_shortage(folders, floor):
        raise EngineError(shortage, transient=False)


def explain_shortage(folders: Folders, floor: int) -> str | None:
    """Return a sentence that names the file system with less free space than the floor; None if all have enough."""
    for name, folder in _file_systems(folders):
        try:
            free = shutil.disk_usage(folder).free
            if folders.image is not None and folder == folders.volumes:
                free += thin_space.measure_withheld(folders.image)  # the disk below counts as well
        except FileNotFoundError:  # not created yet, or the image is not mounted
            continue
        if free < floor:
            return (
                f"{name} has {_megabytes(free)} of free space, less than free_space_floor "
                f"({_megabytes(floor)}), so nothing new is created: free some space."
            )
    return None


def measure_space(folders: Folders, floor: int) -> tuple[int, int]:
    """Return the bytes that can be written to the file system of the volumes, and its size.

    A thin image has less than its file system says when the disk below has less above the floor.
    """
    status = os.statvfs(next(each for each in (folders.volumes, *folders.volumes.parents) if each.exists()))
    free, total = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    if folders.image is not None and folders.image.is_mounted():
        free = thin_space.measure_available(folders.image, floor)
    return free, total


def _file_systems(folders: Folders) -> Iterator[tuple[str, Path]]:
    """Yield every file system that computes write to, with a name for messages."""
    image = folders.image
    if image is not None:
        yield f"The storage image {image.file}", folders.volumes
        if image.thin:  # other files may take the space that it has not used yet
            yield f"The disk under the thin storage image {image.file}", image.file.parent
    if folders.pg_wal is not None:
        yield f"The disk of {folders.pg_wal}", folders.pg_wal
    yield f"The disk of {folders.home}", folders.home


def _megabytes(count: int) -> str:
    return f"{count // 1024**2} MB"

"""The floor of free space: below it nothing new is made, so that what runs can go on writing."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bough.engine.local.folders import Folders
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.port import EngineError


def explain_rejection(folders: Folders, floor: int) -> str | None:
    """Why nothing new can be made now, for somebody who would rather know before asking for it."""
    try:
        with translate_os_errors():
            folders.check_storage()
            check_free_space(folders, floor)
    except EngineError as error:
        return error.public_message
    return None


def check_free_space(folders: Folders, floor: int) -> None:
    if sentence := explain_shortage(folders, floor):
        raise EngineError(sentence, transient=False)


def explain_shortage(folders: Folders, floor: int) -> str | None:
    """Which file system has less free space than the floor, in a sentence; None when all have enough."""
    for what, folder in _places(folders):
        try:
            free = shutil.disk_usage(folder).free
        except FileNotFoundError:  # not there yet, or the image is not: no shortage of space, whatever it is
            continue
        if free < floor:
            return (
                f"{what} has {_megabytes(free)} of free space, less than free_space_floor "
                f"({_megabytes(floor)}), so nothing new is made: free some space."
            )
    return None


def measure_space(folders: Folders) -> tuple[int, int]:
    """Free bytes and all bytes where volumes are kept, or will be."""
    seen = os.statvfs(folders.volumes if folders.volumes.exists() else folders.home)
    return seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize


def _places(folders: Folders) -> Iterator[tuple[str, Path]]:
    """Every file system that computes write to."""
    image = folders.image
    if image is not None:
        yield f"The storage image {image.file}", folders.volumes
        if image.thin:  # what it has not taken yet, others may take
            yield f"The disk under the thin storage image {image.file}", image.file.parent
    if folders.pg_wal is not None:
        yield f"The disk of {folders.pg_wal}", folders.pg_wal
    yield f"The disk of {folders.home}", folders.home


def _megabytes(count: int) -> str:
    return f"{count // 1024**2} MB"

"""Keeps the free space of a thin image in step with the free space of the disk below.

Only a part of the free space is offered to writers: at most half of what is free above the floor, so that WAL on the
disk and data in the image run out of space together. Disk space is reserved for all of it, see `withheld_file`.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from bough import log
from bough.config import is_root
from bough.engine.local.images import mounts
from bough.engine.local.images.image import Image
from bough.engine.local.images.withheld_file import NAME, UNIT, WithheldFile
from bough.engine.local.tenant_files import BLOCK_BYTES

# More than all computes of a machine write between two checks. An eighth of the image, within these limits.
MIN_LIMIT, MAX_LIMIT = 512 * UNIT, 4096 * UNIT
_SHARE_OF_IMAGE = 8
INTERVAL = 0.25  # seconds between two checks
_MARGIN = 16 * UNIT  # differences that are left as they are
_RELATIVE_MARGIN = 8  # of the offered space

logger = log.get_logger(component="storage")


class ThinSpace:
    """Does nothing without a thin image with XFS, or as an ordinary user.

    On btrfs the offset of a block in the image is not known, so that its disk space cannot be reserved.
    """

    def __init__(self, floor: int, find_image: Callable[[], Image | None]) -> None:
        self._floor = floor
        self._find_image = find_image
        self._image: Image | None = None
        self._image_file = -1
        self._blocks = 0  # of the file system; more when the operator enlarges it
        self._stopped = Event()
        self._thread: Thread | None = None
        self._failure = ""

    def start(self) -> None:
        """Adjust the image now and regularly, in a thread of its own, which no slow request delays."""
        self.close()
        self.prepare()
        if self._image is not None:
            self._stopped.clear()
            self._thread = Thread(target=self._run, name="thin-space", daemon=True)
            self._thread.start()

    def prepare(self) -> None:
        """Reserve disk space for all that is not withheld, also after a crash or in an image without the file."""
        image = self._find_image()
        if image is None or not image.thin or image.fs != "xfs" or not is_root():
            return
        if mounts.find_backing_file(image.mount_point) != image.file.resolve():
            logger.warning("thin_image_was_replaced", file=str(image.file))
            return
        mounts.disable_discard(image.mount_point)
        self._image, self._image_file = image, os.open(image.file, os.O_RDWR | os.O_CLOEXEC)
        self._run_logged(self._reserve_all)

    def close(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._image is not None:
            os.close(self._image_file)
            self._image = None

    def adjust(self) -> None:
        """Offer more or less space; when nothing has to change, this only asks both file systems for their space."""
        if self._image is None:
            return
        status = os.statvfs(self._image.mount_point)
        if status.f_blocks != self._blocks:
            self._reserve_all()
            return
        free = status.f_bavail * status.f_frsize
        target = self._plan(free, _measure_free(self._image.file.parent))
        margin = _MARGIN + target // _RELATIVE_MARGIN
        if free > target + margin:
            self._change(lambda withheld: withheld.grow(free - target))
        elif free < target - margin:
            self._change(lambda withheld: withheld.shrink(target - free))

    def _change(self, change: Callable[[WithheldFile], int]) -> None:
        assert self._image is not None
        if not self._image.is_mounted():
            return
        with suppress(FileNotFoundError), WithheldFile.open(self._image.mount_point, self._image_file) as withheld:
            change(withheld)

    def _reserve_all(self) -> None:
        if self._image is None or not self._image.is_mounted():
            return
        mount_point = self._image.mount_point
        with WithheldFile.open(mount_point, self._image_file, create=True) as withheld:
            withheld.drop_unfinished()
            free, disk_free = _measure_free(mount_point), _measure_free(self._image.file.parent)
            missing = self._measure_missing(withheld)
            if missing > _MARGIN:
                withheld.grow(free - self._plan(free, disk_free - missing), keep_reserved=True)
            withheld.reserve_the_rest()
        self._blocks = os.statvfs(mount_point).f_blocks

    def _plan(self, free: int, disk_free: int) -> int:
        assert self._image is not None
        return plan_offered(free, disk_free - self._floor, self._image.size)

    def _measure_missing(self, withheld: WithheldFile) -> int:
        """Return how many bytes of the image are neither withheld nor have disk space."""
        status = os.fstat(self._image_file)
        return max(status.st_size - withheld.size - status.st_blocks * BLOCK_BYTES, 0)

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            self._run_logged(self.adjust)

    def _run_logged(self, work: Callable[[], None]) -> None:
        """Log a lasting failure once. Writers then get "No space left on device" earlier than necessary."""
        try:
            work()
        except OSError as error:
            failure = errno.errorcode.get(error.errno or 0, str(error))
            if failure != self._failure:
                logger.warning("thin_image_not_adjusted", error=str(error))
            self._failure = failure
        else:
            self._failure = ""


def plan_offered(free: int, disk_free: int, size: int) -> int:
    """Return how much free space the image should offer.

    All free space that it offers now has disk space already. `disk_free` may be negative, if the floor is not free.
    """
    limit = min(max(size // _SHARE_OF_IMAGE, MIN_LIMIT), MAX_LIMIT)
    return max(min((free + disk_free) // 2, limit), 0)


def measure_withheld(image: Image) -> int:
    """Return how much of the free space is withheld."""
    try:
        return (image.mount_point / NAME).lstat().st_size
    except OSError:
        return 0


def measure_available(image: Image, floor: int) -> int:
    """Return how much can be written to the image. Of the disk below, the floor stays free."""
    free = _measure_free(image.mount_point)
    if not image.thin:
        return free
    withheld, disk_free = measure_withheld(image), max(_measure_free(image.file.parent) - floor, 0)
    return free + min(withheld, disk_free) if withheld else min(free, disk_free)


def _measure_free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize

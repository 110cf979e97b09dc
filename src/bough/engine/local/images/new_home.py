"""Decides whether a new home gets a storage image, and plans it.

Only `bough up` asks. A home that already contains data stays as it is: `bough storage init` moves it.
"""

import os
import shutil

from bough import byte_sizes
from bough.config import Settings, is_root
from bough.engine.local.images import mounts
from bough.engine.local.images.image import IMAGE_FILE, IMAGE_FOLDERS, RECORD_FILE, Image
from bough.engine.local.volumes.driver_choice import choose_driver
from bough.engine.port import EngineError

MIN_SIZE = 1024**3
_MAX_SIZE = 15 * 1024**4  # a file on ext4 is smaller than 16 TB
_SIZE_UNIT = 1024**2
# Loop devices are not reliable on network file systems, and an image in memory would take the memory twice.
_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs")


def is_new(settings: Settings) -> bool:
    """Return whether the home contains no data of a platform yet."""
    paths = (settings.home / RECORD_FILE, settings.store_file, *(settings.home / name for name in IMAGE_FOLDERS))
    return not any(os.path.lexists(path) for path in paths)


def wants_image(settings: Settings) -> bool:
    """Return whether the home is new and its branches would be full copies, without the operator asking for it."""
    return settings.storage == "auto" and is_new(settings) and choose_driver("auto", settings.home).name == "plain"


def can_have_image(settings: Settings) -> bool:
    """Return whether the first start will create an image, as far as it is known before it tries."""
    if settings.storage != "auto" or not is_new(settings):
        return False
    try:
        plan_image(settings)
    except EngineError:
        return False
    return True


def plan_image(settings: Settings) -> Image:
    """Plan a thin image as large as the free space of the disk; raise an EngineError if there can be none."""
    if not is_root():
        raise EngineError("Only root can create and mount a storage image.", transient=False)
    folder = next(each for each in (settings.home, *settings.home.parents) if each.exists())
    if (fs := mounts.find_file_system(folder)) not in _FILE_SYSTEMS:
        raise EngineError(
            f"The home is on {fs or 'an unknown file system'}, where no storage image is created.", transient=False
        )
    free, floor = shutil.disk_usage(folder).free, settings.free_space_floor
    if free < floor + MIN_SIZE:
        raise EngineError(
            f"The disk of {settings.home} has {byte_sizes.format_mb_or_gb(free)} of free space, and a storage image "
            f"needs {byte_sizes.format_mb_or_gb(floor + MIN_SIZE)}, including free_space_floor.",
            transient=False,
        )
    size = min(free, _MAX_SIZE) // _SIZE_UNIT * _SIZE_UNIT
    return Image.plan(settings.home, settings.home / IMAGE_FILE, fs="xfs", thin=True, size=size)

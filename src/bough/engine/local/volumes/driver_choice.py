"""Chooses the volume driver of a home by what its file system supports."""

import errno
import tempfile
from pathlib import Path

from bough.engine.local.durable_files import is_btrfs
from bough.engine.local.volumes.btrfs import BtrfsDriver
from bough.engine.local.volumes.ioctls import clone_whole
from bough.engine.local.volumes.plain import PlainDriver
from bough.engine.local.volumes.port import Driver
from bough.engine.local.volumes.reflink import ReflinkDriver
from bough.errors import InvalidSetting

_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EINVAL, errno.EXDEV)


def choose_driver(storage: str, folder: Path) -> Driver:
    """Return the requested driver if the file system of `folder` supports it; `auto` is the best it supports."""
    if storage == "plain":
        return PlainDriver()
    if storage in ("auto", "btrfs") and is_btrfs(folder):
        return BtrfsDriver()
    if storage in ("auto", "reflink") and can_reflink(folder):
        return ReflinkDriver()
    if storage == "auto":
        return PlainDriver()
    raise InvalidSetting(
        f"The file system of {folder} does not support --storage {storage}: use --storage auto, put the home on "
        f"{'btrfs' if storage == 'btrfs' else 'XFS or btrfs'}, or create a storage image "
        "with `bough storage init`."
    )


def can_reflink(folder: Path) -> bool:
    """Try it, because an XFS file system, for example, may have been formatted without reflinks."""
    with tempfile.TemporaryFile(dir=folder) as source, tempfile.TemporaryFile(dir=folder) as target:
        source.write(bytes(4096))
        source.flush()
        try:
            clone_whole(source.fileno(), target.fileno())
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return False
        return True

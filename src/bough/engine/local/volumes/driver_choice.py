"""Which driver makes the volumes of a home, by what its file system can do."""

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

_CANNOT = (errno.EOPNOTSUPP, errno.ENOTTY, errno.ENOSYS, errno.EINVAL, errno.EXDEV)


def choose_driver(storage: str, folder: Path) -> Driver:
    """The driver that was asked for, if the file system of `folder` can do it; `auto` is the best it can do."""
    if storage == "plain":
        return PlainDriver()
    if storage in ("auto", "btrfs") and is_btrfs(folder):
        return BtrfsDriver()
    if storage in ("auto", "reflink") and can_reflink(folder):
        return ReflinkDriver()
    if storage == "auto":
        return PlainDriver()
    raise InvalidSetting(
        f"The file system of {folder} cannot do --storage {storage}: use --storage auto, put the home on "
        f"{'btrfs' if storage == 'btrfs' else 'XFS or btrfs'}, or give the platform an image of its own "
        "with `bough storage init`."
    )


def can_reflink(folder: Path) -> bool:
    """Found out by doing it: an XFS, say, may have been made without."""
    with tempfile.TemporaryFile(dir=folder) as source, tempfile.TemporaryFile(dir=folder) as target:
        source.write(bytes(4096))
        source.flush()
        try:
            clone_whole(source.fileno(), target.fileno())
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            return False
        return True

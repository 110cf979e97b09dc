"""The gateway's workers: how many there are, the user they run as, and the folder that belongs to that user."""

import os
import pwd
import stat
from pathlib import Path

from bough.config import Settings, is_root
from bough.errors import Unavailable


def count_workers(settings: Settings) -> int:
    return settings.gateway_workers or len(os.sched_getaffinity(0))


def has_gateway_user(settings: Settings) -> bool:
    """As root, control adds the user at the first start; otherwise workers run as the current user."""
    if not is_root():
        return True
    try:
        pwd.getpwnam(settings.gateway_user)
    except KeyError:
        return False
    return True


def ensure_gateway_folder(settings: Settings) -> None:
    """Create the workers' folder, which only the gateway's user can enter."""
    folder = settings.gateway_folder
    ensure_folder(folder, 0o700)
    if is_root():
        account = pwd.getpwnam(settings.gateway_user)
        os.chown(folder, account.pw_uid, account.pw_gid)


def ensure_folder(path: Path, mode: int, group: int | None = None) -> None:
    """Create the folder with this mode and group, or adjusts an existing one that belongs to us."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        existing = path.lstat()
        # The name of a folder in /tmp is predictable: another user may have created it.
        if not stat.S_ISDIR(existing.st_mode) or (existing.st_uid != os.geteuid() and not is_root()):
            raise Unavailable(f"{path} is not a folder of this user; remove it.")
        if group is not None and existing.st_gid != group:
            os.chown(path, -1, group)
        if stat.S_IMODE(existing.st_mode) != mode:
            path.chmod(mode)
    except OSError as error:
        raise Unavailable(f"The folder {path} cannot be created or used: {error.strerror}.") from None

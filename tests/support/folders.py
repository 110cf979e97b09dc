"""Temporary folders with short paths, as sockets need them; nothing of a home in one stays on the machine.

Separate from `support.platform`, which imports the whole platform: processes of tests that need only an engine start
with it.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bough.config import Settings
from bough.engine.local.file_lock import hold_file_lock
from bough.engine.local.isolation import cgroups
from bough.engine.local.isolation.uid_cleanup import remove_files

# In memory where possible, because otherwise the disk would take most of a test's time.
ROOT = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"


@contextmanager
def temporary_folder(mode: int = 0o711) -> Iterator[Path]:
    """Yield a folder that other users can traverse, with a short path for sockets."""
    path = Path(tempfile.mkdtemp(prefix="bough-", dir=ROOT))
    path.chmod(mode)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(Settings(home=path / "home").sockets, ignore_errors=True)
        remove_cgroups(Settings(home=path / "home"))
        release_uids(path)


def remove_cgroups(settings: Settings) -> None:
    """Remove the control groups of computes that a test ended without the engine."""
    groups = cgroups.detect_cgroups(settings)
    for name in groups.list_names():
        groups.remove(name)


def reserve_uid_range() -> tuple[int, int]:
    """Return a range of user ids that no other test uses, so that everything left under one of them is ours."""
    first = 2_001_000_000 + secrets.randbelow(100_000) * 1000
    return first, first + 1000


def release_uids(folder: Path) -> None:
    """Remove the host's claims of user ids by homes in the folder, and what those users left in memory."""
    host = Path("/run/bough/uids")
    if not os.access(host, os.W_OK):  # an ordinary user assigns no user ids
        return
    with hold_file_lock(host / ".lock"):  # engines of other tests read all of them
        for claim in host.glob("[0-9]*"):
            with suppress(FileNotFoundError):  # another test removed its own claim
                if claim.readlink().is_relative_to(folder):
                    remove_files(int(claim.name))
                    claim.unlink()

"""Folders with short paths, as sockets need them; of a home in one nothing stays on the machine.

Apart from `world`, which brings all of the platform along: processes of tests that need an engine alone start with it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bough.config import Settings
from bough.engine.local.file_lock import hold_file_lock
from bough.engine.local.isolation import cgroups
from bough.engine.local.isolation.uid_cleanup import remove_files

# In memory where that is possible: most of a test's time would be the disk's.
ROOT = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"


@contextmanager
def temporary_folder(mode: int = 0o711) -> Iterator[Path]:
    """A folder that other users can pass through, with a short path for sockets."""
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
    """Limits of computes that a test ended without the engine."""
    groups = cgroups.detect_cgroups(settings)
    for name in groups.list_names():
        groups.remove(name)


def release_uids(folder: Path) -> None:
    """The host's note of which user ids the homes in a folder lent, and what those left in memory."""
    host = Path("/run/bough/uids")
    if not os.access(host, os.W_OK):  # an ordinary user lends none
        return
    with hold_file_lock(host / ".lock"):  # engines of other tests read all of them
        for claim in host.glob("[0-9]*"):
            with suppress(FileNotFoundError):  # another test took its own away
                if claim.readlink().is_relative_to(folder):
                    remove_files(int(claim.name))
                    claim.unlink()

"""Start processes that can never gain a privilege, whatever they execute.

`no_new_privs` belongs to a thread and goes to what the thread forks. `subprocess` has no option for
it, and code of ours between fork and exec may deadlock under threads; so one thread gives up new
privileges for good and does all the starting, while the others keep theirs.
"""

import ctypes
import os
import resource
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bough.engine.local.isolation.sandbox import Identity, ourselves, start_options
from bough.engine.local.threads import submitted

_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_BECOME = shutil.which("setpriv", path="/usr/bin:/bin")  # of util-linux; without it we do it ourselves

_libc = ctypes.CDLL(None, use_errno=True)
_thread = ThreadPoolExecutor(1, "launcher")


def spawn(
    command: list[str], identity: Identity, within: AbstractContextManager[None] | None = None, **streams: Any
) -> subprocess.Popen[bytes]:
    """A process under the identity, that inherits nothing but the given streams.

    `within` is entered by the thread that starts it, for what a process has from its parent.
    """
    return submitted(lambda: _spawn_within(within, command, identity, streams), _thread.submit).result()


def _spawn_within(
    within: AbstractContextManager[None] | None, command: list[str], identity: Identity, streams: dict[str, Any]
) -> subprocess.Popen[bytes]:
    with within or nullcontext():
        if identity.is_ours or _BECOME is None:
            return _spawn(command, start_options(identity) | streams)
        # To become another user in the child makes Python copy all its memory for the fork; a small program does
        # it in a fraction of the time.
        become = [_BECOME, "--reuid", str(identity.uid), "--regid", str(identity.gid), "--clear-groups", "--"]
        return _spawn([*become, *command], start_options(ourselves()) | streams)


def _spawn(command: list[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
    # No core dumps: one is as large as the shared memory, and holds rows. A limit is inherited from the
    # whole process, so ours goes too: a core of ours would hold keys.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # The limit of our own memory is not that of a compute, which has one by its control group.
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    try:
        return subprocess.Popen(command, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

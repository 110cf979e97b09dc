"""Start processes that can never gain a privilege, whatever they execute.

`no_new_privs` belongs to a thread and goes to what the thread forks. `subprocess` has no option for
it, and code of ours between fork and exec may deadlock under threads; so one thread gives up new
privileges for good and does all the starting, while the others keep theirs.
"""

import ctypes
import os
import resource
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bough.engine.local.isolation.sandbox import Identity, start_options
from bough.engine.local.threads import submitted

_SET_NO_NEW_PRIVS = 38  # linux/prctl.h

_libc = ctypes.CDLL(None, use_errno=True)
_thread = ThreadPoolExecutor(1, "launcher")


def spawn(command: list[str], identity: Identity, **streams: Any) -> subprocess.Popen[bytes]:
    """A process under the identity, that inherits nothing but the given streams."""
    return submitted(lambda: _spawn(command, start_options(identity) | streams), _thread.submit).result()


def _spawn(command: list[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
    # No core dumps: one is as large as the shared memory, and holds rows. A limit is inherited from the
    # whole process, so ours goes too: a core of ours would hold keys.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return subprocess.Popen(command, **options)

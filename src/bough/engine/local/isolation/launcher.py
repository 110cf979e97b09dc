"""Start processes that can never gain a privilege, whatever they execute.

`no_new_privs`, a filter of system calls and a mount namespace belong to a thread and go to what the thread forks.
`subprocess` has no option for them, and code of ours between fork and exec may deadlock under threads; so each
process is started by a thread of its own, which takes them on for good and ends, while the others keep theirs.
"""

import ctypes
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from bough import log
from bough.config import is_root
from bough.engine.local.isolation import seccomp
from bough.engine.local.isolation.mount_namespace import MountNamespace
from bough.engine.local.isolation.sandbox import Identity, build_popen_options, current_identity
from bough.engine.local.threads import submit_work

_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_SETPRIV = shutil.which("setpriv", path="/usr/bin:/bin")  # of util-linux; without it we do it ourselves

logger = log.get_logger(component="engine")
_libc = ctypes.CDLL(None, use_errno=True)
_unavailable: dict[str, str] = {}  # what this machine does not let us do; tried once
_FOR_GOOD = (errno.EPERM, errno.EACCES, errno.ENOSYS)
MOUNT_NAMESPACE, SYSCALL_FILTER = "mount namespace", "filter of system calls"


@dataclass(frozen=True, slots=True)
class _Start:
    command: list[str]
    identity: Identity
    within: AbstractContextManager[None]
    streams: dict[str, Any]


class _NamespaceUnavailable(Exception):
    """The thread may have entered half of it, and cannot go back."""


class _Threads:
    """Each is used once. The next one is there already: on a busy machine a new one comes late.

    It is made by a thread that has given up nothing, because it begins with what its maker has.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[ThreadPoolExecutor] = SimpleQueue()
        self._maker = ThreadPoolExecutor(1, "launcher")

    def take(self) -> ThreadPoolExecutor:
        try:
            return self._waiting.get_nowait()
        except Empty:
            return ThreadPoolExecutor(1, "launcher")

    def make_next(self) -> None:
        with suppress(RuntimeError):  # the machine has no more
            self._maker.submit(self._make)

    def _make(self) -> None:
        if self._waiting.empty():
            thread = ThreadPoolExecutor(1, "launcher")
            thread.submit(int)
            self._waiting.put(thread)


_threads = _Threads()


def spawn(
    command: list[str],
    identity: Identity,
    start_context: AbstractContextManager[None] | None = None,
    namespace: MountNamespace | None = None,
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """A process under the identity, that inherits nothing but the given streams.

    `within` is entered by the thread that starts it, for what a process has from its parent. So is `namespace`, where
    this machine lets us.
    """
    start = _Start(command, identity, start_context or nullcontext(), streams)
    try:
        return _in_a_thread(start, namespace)
    except _NamespaceUnavailable:
        return _in_a_thread(start, None)


def _in_a_thread(start: _Start, namespace: MountNamespace | None) -> subprocess.Popen[bytes]:
    def work() -> subprocess.Popen[bytes]:
        _confine(namespace)
        with start.within:
            return _spawn_as(start)

    thread = _threads.take()
    try:
        return submit_work(work, thread.submit).result()
    finally:
        thread.shutdown(wait=False)
        _threads.make_next()


def _confine(namespace: MountNamespace | None) -> None:
    """The namespace first: a filtered thread makes none."""
    is_wanted = namespace is not None and is_root() and MOUNT_NAMESPACE not in _unavailable
    if namespace is not None and is_wanted and not _attempt(MOUNT_NAMESPACE, namespace.enter):
        raise _NamespaceUnavailable
    if SYSCALL_FILTER not in _unavailable:
        _attempt(SYSCALL_FILTER, seccomp.install_filter)


def probe_unavailable(namespace: MountNamespace) -> dict[str, str]:
    """What this machine does not let us do, and why; tried by a thread that is gone afterwards."""
    found: dict[str, str] = {}

    def attempt() -> None:
        for what, work in ((MOUNT_NAMESPACE, namespace.enter), (SYSCALL_FILTER, seccomp.install_filter)):
            try:
                work()
            except OSError as error:
                found[what] = error.strerror or str(error)

    with ThreadPoolExecutor(1, "probe") as thread:
        thread.submit(attempt).result()
    return found


def _attempt(what: str, work: Callable[[], None]) -> bool:
    """Without it computes run too. What the machine does not let us do is not tried again; `bough doctor` says so."""
    try:
        work()
    except OSError as error:
        logger.warning("compute_not_confined", lacks=what, error=str(error))
        if error.errno in _FOR_GOOD:
            _unavailable[what] = error.strerror or str(error)
        return False
    return True


def _spawn_as(start: _Start) -> subprocess.Popen[bytes]:
    if start.identity.is_current_user or _SETPRIV is None:
        return _spawn(start.command, build_popen_options(start.identity) | start.streams)
    # To become another user in the child makes Python copy all its memory for the fork; a small program does
    # it in a fraction of the time.
    ids = ["--reuid", str(start.identity.uid), "--regid", str(start.identity.gid), "--clear-groups"]
    return _spawn([_SETPRIV, *ids, "--", *start.command], build_popen_options(current_identity()) | start.streams)


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

"""Start processes that can never gain privileges.

`no_new_privs`, a seccomp filter and a mount namespace belong to a thread, and its child processes inherit them.
`subprocess` has no option for them, and running Python between fork and exec may deadlock in a process with threads.
Therefore each process is started by a new thread, which applies the restrictions to itself and then ends.
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
_SETPRIV = shutil.which("setpriv", path="/usr/bin:/bin")  # from util-linux; without it, Popen changes the user

logger = log.get_logger(component="engine")
_libc = ctypes.CDLL(None, use_errno=True)
_unavailable: dict[str, str] = {}  # what this machine does not support, with the reason
_PERMANENT_ERRORS = (errno.EPERM, errno.EACCES, errno.ENOSYS)
MOUNT_NAMESPACE, SYSCALL_FILTER = "mount namespace", "system call filter"


@dataclass(frozen=True, slots=True)
class _Start:
    command: list[str]
    identity: Identity
    start_context: AbstractContextManager[None]
    options: dict[str, Any]


class _NamespaceUnavailable(Exception):
    """The thread may have partly entered the namespace and cannot leave it."""


class _Threads:
    """Single-use threads. The next one is created in advance, because creation is slow on a busy machine.

    An unrestricted thread creates it, because a thread inherits the restrictions of its creator.
    """

    def __init__(self) -> None:
        self._ready: SimpleQueue[ThreadPoolExecutor] = SimpleQueue()
        self._creator = ThreadPoolExecutor(1, "launcher")

    def take(self) -> ThreadPoolExecutor:
        try:
            return self._ready.get_nowait()
        except Empty:
            return ThreadPoolExecutor(1, "launcher")

    def create_next(self) -> None:
        with suppress(RuntimeError):  # the machine cannot create another thread
            self._creator.submit(self._create)

    def _create(self) -> None:
        if self._ready.empty():
            thread = ThreadPoolExecutor(1, "launcher")
            thread.submit(int)
            self._ready.put(thread)


_threads = _Threads()


def spawn(
    command: list[str],
    identity: Identity,
    start_context: AbstractContextManager[None] | None = None,
    namespace: MountNamespace | None = None,
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a process under the identity, which inherits nothing. `options` are its streams and environment for Popen.

    The thread that starts it enters `start_context`, and `namespace` where this machine supports it.
    """
    start = _Start(command, identity, start_context or nullcontext(), options)
    try:
        return _run_in_thread(start, namespace)
    except _NamespaceUnavailable:
        return _run_in_thread(start, None)


def _run_in_thread(start: _Start, namespace: MountNamespace | None) -> subprocess.Popen[bytes]:
    def work() -> subprocess.Popen[bytes]:
        _confine(namespace)
        with start.start_context:
            return _spawn_as(start)

    thread = _threads.take()
    try:
        return submit_work(work, thread.submit).result()
    finally:
        thread.shutdown(wait=False)
        _threads.create_next()


def _confine(namespace: MountNamespace | None) -> None:
    """Enter the namespace first, because the filter forbids creating one."""
    is_wanted = namespace is not None and is_root() and MOUNT_NAMESPACE not in _unavailable
    if namespace is not None and is_wanted and not _attempt(MOUNT_NAMESPACE, namespace.enter):
        raise _NamespaceUnavailable
    if SYSCALL_FILTER not in _unavailable:
        _attempt(SYSCALL_FILTER, seccomp.install_filter)


def probe_unavailable(namespace: MountNamespace) -> dict[str, str]:
    """Return what this machine does not support, with the reason. A thread that ends afterwards tries it."""
    unavailable: dict[str, str] = {}

    def attempt() -> None:
        for feature, enable in ((MOUNT_NAMESPACE, namespace.enter), (SYSCALL_FILTER, seccomp.install_filter)):
            try:
                enable()
            except OSError as error:
                unavailable[feature] = error.strerror or str(error)

    with ThreadPoolExecutor(1, "probe") as thread:
        thread.submit(attempt).result()
    return unavailable


def _attempt(feature: str, enable: Callable[[], None]) -> bool:
    """Computes run without it, too. Do not retry what the machine does not support; `bough doctor` reports it."""
    try:
        enable()
    except OSError as error:
        logger.warning("compute_not_confined", lacks=feature, error=str(error))
        if error.errno in _PERMANENT_ERRORS:
            _unavailable[feature] = error.strerror or str(error)
        return False
    return True


def _spawn_as(start: _Start) -> subprocess.Popen[bytes]:
    if start.identity.is_current_user or _SETPRIV is None:
        return _spawn(start.command, build_popen_options(start.identity) | start.options)
    # To change the user, Popen forks the whole process; a small program takes a fraction of that time.
    ids = ["--reuid", str(start.identity.uid), "--regid", str(start.identity.gid), "--clear-groups"]
    return _spawn([_SETPRIV, *ids, "--", *start.command], build_popen_options(current_identity()) | start.options)


def _spawn(command: list[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
    # No core dumps: they are as large as the shared memory and contain rows. The limit applies to this process, too,
    # whose core dump would contain keys.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # The memory limit of this process does not apply to a compute, which its control group limits.
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    try:
        return subprocess.Popen(command, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

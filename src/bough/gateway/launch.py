"""`python -m bough.gateway.launch USER …`: a worker that switches to another user before it serves.

It imports all modules first, because the gateway's user may not be able to read the program, such as in root's
home. At that point it has received no client data and holds no secrets.
"""

import concurrent.futures.thread
import ctypes
import encodings.idna
import os
import pwd
import resource
import signal
import sys
import traceback

from bough.gateway.__main__ import parse_arguments, serve

OPEN_FILES = 524_288  # two per connection; a lower hard limit takes precedence

LOADED = (concurrent.futures.thread, encodings.idna, traceback)  # Python would import these on first use
_BLOCKED = {signal.SIGTERM, signal.SIGQUIT}  # the supervisor blocks them while it starts us
_SET_NO_NEW_PRIVS = 38  # linux/prctl.h


def main() -> None:
    """The first argument is the user, empty for the current one. The others are those of `bough.gateway`."""
    user = sys.argv.pop(1)
    arguments = parse_arguments()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)  # until the worker handles them, they end the process
    os.umask(0o077)
    _set_limits()
    if user:
        _switch_user(user)
    _disable_new_privileges()
    sys.exit(serve(arguments))


def _set_limits() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would contain client data and the certificate's key


def _switch_user(user: str) -> None:
    account = pwd.getpwnam(user)
    os.setgroups([])
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)


def _disable_new_privileges() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))


if __name__ == "__main__":
    main()

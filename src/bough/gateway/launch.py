"""`python -m bough.gateway.launch USER …`: a worker that becomes another user before it serves.

It loads everything first, because the program may live where the gateway's user cannot read, such as in
the home of root. Nothing has been heard of a client by then, and no secret is in its memory.
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

OPEN_FILES = 524_288  # two a connection; a lower limit of the machine holds

LOADED = (concurrent.futures.thread, encodings.idna, traceback)  # which Python looks for when it first needs them
_BLOCKED = {signal.SIGTERM, signal.SIGQUIT}  # by the supervisor, while it starts us
_SET_NO_NEW_PRIVS = 38  # linux/prctl.h


def main() -> None:
    """The first argument is the user, empty for who we are; the others are those of `bough.gateway`."""
    user = sys.argv.pop(1)
    given = parse_arguments()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _BLOCKED)  # until they are listened to they end us, as they should
    os.umask(0o077)
    _set_limits()
    if user:
        _become(user)
    _give_up_new_privileges()
    sys.exit(serve(given))


def _set_limits() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold what clients sent, and the certificate's key


def _become(user: str) -> None:
    account = pwd.getpwnam(user)
    os.setgroups([])
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)


def _give_up_new_privileges() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()

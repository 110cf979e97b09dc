"""Connections as another user of the machine: the kernel reports that user's id as the peer of the socket."""

import ctypes
import os
import platform
import socket
from collections.abc import Iterator
from contextlib import contextmanager

_SETRESUID, _SETRESGID = {"x86_64": (117, 119), "aarch64": (147, 149)}[platform.machine()]
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def run_as_user(uid: int, gid: int) -> Iterator[None]:
    """Changes the ids of this thread only; the functions of the C library change all threads.

    Do not await inside the block.
    """
    _set_id(_SETRESGID, gid)
    _set_id(_SETRESUID, uid)
    try:
        yield
    finally:
        _set_id(_SETRESUID, 0)
        _set_id(_SETRESGID, 0)


def _set_id(number: int, id_: int) -> None:
    if _libc.syscall(number, -1, ctypes.c_uint(id_), -1) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def connect_tcp_as(uid: int, port: int) -> socket.socket:
    with run_as_user(uid, uid):
        return socket.create_connection(("127.0.0.1", port))


def connect_unix_as(uid: int, gid: int, path: str) -> socket.socket:
    with run_as_user(uid, gid):
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(path)
        except OSError:
            sock.close()
            raise
        return sock

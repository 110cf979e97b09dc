"""A seccomp filter that denies system calls to a compute and its child processes.

It denies calls that need no privileges, that Postgres and the programs it starts never use, and that are typical for
attacks on the kernel. Other dangerous calls need privileges, which a compute can never gain.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

# linux/filter.h, linux/seccomp.h, linux/audit.h, linux/sched.h
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = (
    0,
    4,
    16,
)  # offsets in `struct seccomp_data`; both architectures are little-endian
_SET_MODE_FILTER, _SPEC_ALLOW = 1, 4
_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net
_NEW_TIME = 0x80  # for `unshare` only: in the flags of `clone` this bit belongs to a signal number
_X32_ABI = 0x40000000  # x32 has the same architecture as x86-64, and its own numbers

# The C library uses netlink to list network addresses.
_ALLOWED_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)

# These numbers are the same on both architectures.
_COMMON_NUMBERS = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "clone3": 435,
    "memfd_secret": 447,
}


@dataclass(frozen=True, slots=True)
class SyscallTable:
    audit_arch: int
    seccomp_number: int
    numbers: Mapping[str, int]


_NAMES = """
    clone unshare setns socket ptrace process_vm_readv process_vm_writev bpf perf_event_open userfaultfd
    add_key request_key keyctl memfd_create personality
""".split()
_X86_64 = (56, 272, 308, 41, 101, 310, 311, 321, 298, 323, 248, 249, 250, 319, 135)
_AARCH64 = (220, 97, 268, 198, 117, 270, 271, 280, 241, 282, 217, 218, 219, 279, 92)

SYSCALL_TABLES = {
    "x86_64": SyscallTable(0xC000003E, 317, {**dict(zip(_NAMES, _X86_64, strict=True)), **_COMMON_NUMBERS}),
    "aarch64": SyscallTable(0xC00000B7, 277, {**dict(zip(_NAMES, _AARCH64, strict=True)), **_COMMON_NUMBERS}),
}

# Denied with any arguments. `setns` enters a namespace; `ptrace` and process_vm_* access other processes of the user;
# `memfd_create` creates an executable file although no writable folder allows execution; the others are large and
# rarely used interfaces.
DENIED_SYSCALLS = tuple(sorted({*_NAMES, *_COMMON_NUMBERS} - {"clone", "clone3", "unshare", "socket"}))

_libc = ctypes.CDLL(None, use_errno=True)


class SeccompUnavailable(OSError):
    """This machine or container does not support the filter."""


def install_filter() -> None:
    """Install the filter for the calling thread and its children, permanently. Also set no_new_privs."""
    table = SYSCALL_TABLES.get(platform.machine())
    if table is None:
        raise SeccompUnavailable(errno.ENOSYS, f"the system calls of {platform.machine()} are unknown")
    program = _build_program(table.audit_arch)
    buffer = ctypes.create_string_buffer(program, len(program))
    prog = _SockFprog(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _check(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # Without the flag, older kernels slow down filtered processes. The oldest kernels do not know the flag.
    for flags in (_SPEC_ALLOW, 0):
        if _libc.syscall(table.seccomp_number, _SET_MODE_FILTER, flags, ctypes.byref(prog)) == 0:
            return
        if ctypes.get_errno() != errno.EINVAL:
            break
    _check(-1)


@cache
def _build_program(audit_arch: int) -> bytes:
    [table] = [each for each in SYSCALL_TABLES.values() if each.audit_arch == audit_arch]
    return b"".join(_instructions(table))


class _SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise SeccompUnavailable(number, os.strerror(number))


def _instructions(table: SyscallTable) -> Iterator[bytes]:
    """Yield BPF instructions. `then` and `otherwise` are the numbers of instructions that a jump skips."""
    calls = table.numbers
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield _instruction(_EQUAL, table.audit_arch, then=1)
    yield _fail(errno.EPERM)
    yield _instruction(_LOAD, _NUMBER)
    yield _instruction(_AT_LEAST, _X32_ABI, otherwise=1)
    yield _fail(errno.EPERM)
    for name in DENIED_SYSCALLS:
        yield _instruction(_EQUAL, calls[name], otherwise=1)
        yield _fail(errno.EPERM)
    # The flags of clone3 are in memory, which a filter cannot read. After ENOSYS callers use `clone` instead.
    yield _instruction(_EQUAL, calls["clone3"], otherwise=1)
    yield _fail(errno.ENOSYS)
    yield from _deny_flags(calls["clone"], _NEW_NAMESPACES)
    yield from _deny_flags(calls["unshare"], _NEW_NAMESPACES | _NEW_TIME)
    yield from _allow_families(calls["socket"])
    yield _instruction(_RETURN, _ALLOW)


def _deny_flags(call: int, flags: int) -> Iterator[bytes]:
    yield _instruction(_EQUAL, call, otherwise=4)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    yield _instruction(_ANY_BIT, flags, otherwise=1)
    yield _fail(errno.EPERM)
    yield _instruction(_RETURN, _ALLOW)


def _allow_families(call: int) -> Iterator[bytes]:
    count = len(_ALLOWED_FAMILIES)
    yield _instruction(_EQUAL, call, otherwise=count + 3)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    for index, family in enumerate(_ALLOWED_FAMILIES):
        yield _instruction(_EQUAL, family, then=count - index)
    yield _fail(errno.EAFNOSUPPORT)
    yield _instruction(_RETURN, _ALLOW)


def _fail(number: int) -> bytes:
    return _instruction(_RETURN, _ERRNO | number)


def _instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)

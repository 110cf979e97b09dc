"""System calls that a compute and all it starts can never make, refused by a filter in the kernel.

Listed is what a process without privileges may otherwise call, what Postgres and the programs it starts never need,
and what code of a tenant would begin an attack on the kernel with. The rest needs privileges that it can never gain.
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
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # places in `struct seccomp_data`; both machines are little-endian
_SET_MODE_FILTER, _SPECULATION_AS_BEFORE = 1, 4
_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net
_NEW_TIME = 0x80  # of `unshare` only: in the flags of `clone` these bits are a signal
_X32_ABI = 0x40000000  # x32, which has the architecture of x86-64 and numbers of its own

# Sockets of a server and of its clients; netlink is how the C library asks for addresses.
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)

# Both architectures call these alike.
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

# Refused whatever their arguments are. `setns` enters a namespace; `ptrace` and its like read other processes of the
# user; `memfd_create` makes a file that can be executed where no folder has one; the others are large and little used.
DENIED_SYSCALLS = tuple(sorted({*_NAMES, *_COMMON_NUMBERS} - {"clone", "clone3", "unshare", "socket"}))

_libc = ctypes.CDLL(None, use_errno=True)


class SeccompUnavailable(OSError):
    """This machine or container does not let us filter."""


def install_filter() -> None:
    """From now on for the calling thread and all it starts; there is no way back. It gives up new privileges too."""
    machine = SYSCALL_TABLES.get(platform.machine())
    if machine is None:
        raise SeccompUnavailable(errno.ENOSYS, f"system calls of {platform.machine()} are not known")
    program = _program(machine.audit_arch)
    held = ctypes.create_string_buffer(program, len(program))
    prog = _Program(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    _checked(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # Without the flag older kernels slow down every process that is filtered. The oldest do not know the flag.
    for flags in (_SPECULATION_AS_BEFORE, 0):
        if _libc.syscall(machine.seccomp_number, _SET_MODE_FILTER, flags, ctypes.byref(prog)) == 0:
            return
        if ctypes.get_errno() != errno.EINVAL:
            break
    _checked(-1)


@cache
def _program(architecture: int) -> bytes:
    [machine] = [each for each in SYSCALL_TABLES.values() if each.audit_arch == architecture]
    return b"".join(_instructions(machine))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise SeccompUnavailable(number, os.strerror(number))


def _instructions(machine: SyscallTable) -> Iterator[bytes]:
    """In the order in which the kernel runs them. A jump tells how many to skip when it is true, and when it is not."""
    calls = machine.numbers
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield _instruction(_EQUAL, machine.audit_arch, then=1)
    yield _fail(errno.EPERM)
    yield _instruction(_LOAD, _NUMBER)
    yield _instruction(_AT_LEAST, _X32_ABI, otherwise=1)
    yield _fail(errno.EPERM)
    for name in DENIED_SYSCALLS:
        yield _instruction(_EQUAL, calls[name], otherwise=1)
        yield _fail(errno.EPERM)
    # Its flags are in memory, where a filter cannot look. Who hears this calls `clone` instead.
    yield _instruction(_EQUAL, calls["clone3"], otherwise=1)
    yield _fail(errno.ENOSYS)
    yield from _without_flags(calls["clone"], _NEW_NAMESPACES)
    yield from _without_flags(calls["unshare"], _NEW_NAMESPACES | _NEW_TIME)
    yield from _of_families(calls["socket"])
    yield _instruction(_RETURN, _ALLOW)


def _without_flags(call: int, flags: int) -> Iterator[bytes]:
    yield _instruction(_EQUAL, call, otherwise=4)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    yield _instruction(_ANY_BIT, flags, otherwise=1)
    yield _fail(errno.EPERM)
    yield _instruction(_RETURN, _ALLOW)


def _of_families(call: int) -> Iterator[bytes]:
    count = len(_FAMILIES)
    yield _instruction(_EQUAL, call, otherwise=count + 3)
    yield _instruction(_LOAD, _FIRST_ARGUMENT)
    for place, family in enumerate(_FAMILIES):
        yield _instruction(_EQUAL, family, then=count - place)
    yield _fail(errno.EAFNOSUPPORT)
    yield _instruction(_RETURN, _ALLOW)


def _fail(number: int) -> bytes:
    return _instruction(_RETURN, _FAIL | number)


def _instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)

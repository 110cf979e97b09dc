"""A compute cannot create a user namespace or use system calls that Postgres never needs."""

import errno
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bough.engine.local.isolation import seccomp
from bough.engine.local.isolation.seccomp import DENIED_SYSCALLS, SYSCALL_TABLES
from support.attacker import Attacker
from support.engine_home import Compute, EngineHome
from support.requirements import require_root

NEW_USER, NEW_TIME, THREAD = 0x10000000, 0x80, 0x50F00  # flags of clone(2); THREAD combines the flags of a new thread


@pytest.fixture
async def compute(home: EngineHome) -> Compute:
    return await home.create_compute()


async def test_no_namespace_is_made(compute: Compute) -> None:
    """The server starts a program that tries to, as a tenant's code would."""
    attacker = Attacker(compute)
    for options in ("-Ur", "-U", "-Urn", "-Urm", "-Upf"):
        assert (await attacker.run_shell(f"unshare {options} id 2>&1; echo $?")).endswith("Operation not permitted\n1")
    attempts = {
        "unshare": f"call('unshare', {NEW_USER})",
        "unshare time": f"call('unshare', {NEW_TIME})",
        "clone": f"call('syscall', calls['clone'], {NEW_USER} | 17, 0, 0, 0, 0)",
        "enter": "call('setns', os.open('/proc/self/ns/user', os.O_RDONLY), 0)",
    }
    calls = SYSCALL_TABLES[os.uname().machine].numbers
    programs = {name: f"calls = {dict(calls)!r}; {code}" for name, code in attempts.items()}
    assert set((await attacker.try_all(programs)).values()) == {"refused"}


async def test_calls_that_postgres_never_makes_are_refused(compute: Compute) -> None:
    calls = SYSCALL_TABLES[os.uname().machine].numbers
    attempts = {name: f"call('syscall', {calls[name]}, -1, 0, 0, 0, 0, 0)" for name in DENIED_SYSCALLS}
    outcomes = await Attacker(compute).try_all(attempts)
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "refused"} == {}
    families = {name: f"socket.socket({int(getattr(socket, name))}, 2)" for name in ("AF_VSOCK", "AF_ALG", "AF_PACKET")}
    assert all(
        f"[Errno {errno.EAFNOSUPPORT}]" in outcome for outcome in (await Attacker(compute).try_all(families)).values()
    )


async def test_programs_with_threads_and_sockets_go_on_working(compute: Compute) -> None:
    """The C library tries clone3, which a filter cannot inspect, and must fall back to clone."""
    attempts = {
        "thread": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
        "process": "import subprocess; subprocess.run(['true'], check=True)",
        "pair": "socket.socketpair()",
        "address": "socket.getaddrinfo('localhost', 5432)",
        "internet": "socket.socket(socket.AF_INET6)",
    }
    program = "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()): "
    outcomes = await Attacker(compute).try_all({name: program + code for name, code in attempts.items()})
    assert set(outcomes.values()) == {"done"}


def test_we_keep_what_computes_give_up(compute: Compute) -> None:
    assert "Seccomp:\t2" in Path(f"/proc/{compute.pid}/status").read_text()
    assert "Seccomp:\t0" in Path("/proc/self/status").read_text()


UNPRIVILEGED_PROGRAM = """
import os, subprocess
from bough.engine.local.isolation import launcher
from bough.engine.local.isolation.sandbox import current_identity
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
user = current_identity()
with launcher.spawn(["unshare", "-Ur", "id"], user, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as started:
    print(started.communicate()[0].decode())
"""


def test_without_root_too() -> None:
    require_root()
    result = subprocess.run([sys.executable, "-c", UNPRIVILEGED_PROGRAM], capture_output=True, text=True, check=False)
    assert "unshare failed: Operation not permitted" in result.stdout, result.stderr


def run_filter(table: seccomp.SyscallTable, call: int, argument: int = 0, architecture: int | None = None) -> int:
    """Runs the filter as the kernel does; returns 0 if the call is allowed, otherwise the error number."""
    data = struct.pack("=IIQQ", call, table.audit_arch if architecture is None else architecture, 0, argument)
    program = list(struct.iter_unpack("=HBBI", b"".join(seccomp._instructions(table))))
    accumulator = position = 0
    while True:
        code, jump_if_true, jump_if_false, value = program[position]
        position += 1
        if code == 0x06:
            return 0 if value == 0x7FFF0000 else value & 0xFFFF
        if code == 0x20:
            [accumulator] = struct.unpack_from("=I", data, value)
        else:
            is_true = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            position += jump_if_true if is_true else jump_if_false


@pytest.mark.parametrize("name", sorted(SYSCALL_TABLES))
def test_the_filter_of_each_architecture(name: str) -> None:
    table, other = SYSCALL_TABLES[name], next(each for key, each in SYSCALL_TABLES.items() if key != name)
    calls = table.numbers
    assert {run_filter(table, calls[call_name]) for call_name in DENIED_SYSCALLS} == {errno.EPERM}
    assert run_filter(table, calls["clone3"]) == errno.ENOSYS
    for call in ("clone", "unshare"):
        assert run_filter(table, calls[call], NEW_USER | 17) == errno.EPERM
        assert run_filter(table, calls[call], THREAD) == 0
    assert (run_filter(table, calls["unshare"], NEW_TIME), run_filter(table, calls["clone"], NEW_TIME)) == (1, 0)
    families = {family: run_filter(table, calls["socket"], family) for family in range(46)}
    assert {family for family, error in families.items() if error == 0} == {1, 2, 10, 16}
    assert set(families.values()) == {0, errno.EAFNOSUPPORT}
    assert run_filter(table, 63, architecture=other.audit_arch) == errno.EPERM
    assert run_filter(table, 63 | 0x40000000) == errno.EPERM
    known = set(calls.values())
    assert {run_filter(table, call, 0xFFFFFFFF) for call in range(500) if call not in known} == {0}

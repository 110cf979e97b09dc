"""Also: `unshare -Ur` by a project's user. No compute makes a namespace, nor calls what leads deep into the kernel."""

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
from support.engine_home import Compute, EngineHome
from support.intruder import Intruder
from support.requirements import require_root

NEW_USER, NEW_TIME, THREAD = 0x10000000, 0x80, 0x50F00  # flags of clone(2); the last are those of a thread


@pytest.fixture
async def compute(home: EngineHome) -> Compute:
    return await home.create_compute()


async def test_no_namespace_is_made(compute: Compute) -> None:
    """By a program that the server starts, which is how a tenant's code would do it."""
    intruder = Intruder(compute)
    for options in ("-Ur", "-U", "-Urn", "-Urm", "-Upf"):
        assert (await intruder.run_shell(f"unshare {options} id 2>&1; echo $?")).endswith("Operation not permitted\n1")
    attempts = {
        "unshare": f"call('unshare', {NEW_USER})",
        "unshare time": f"call('unshare', {NEW_TIME})",
        "clone": f"call('syscall', calls['clone'], {NEW_USER} | 17, 0, 0, 0, 0)",
        "enter": "call('setns', os.open('/proc/self/ns/user', os.O_RDONLY), 0)",
    }
    calls = SYSCALL_TABLES[os.uname().machine].numbers
    given = {name: f"calls = {dict(calls)!r}; {code}" for name, code in attempts.items()}
    assert set((await intruder.try_all(given)).values()) == {"refused"}


async def test_calls_that_postgres_never_makes_are_refused(compute: Compute) -> None:
    calls = SYSCALL_TABLES[os.uname().machine].numbers
    attempts = {name: f"call('syscall', {calls[name]}, -1, 0, 0, 0, 0, 0)" for name in DENIED_SYSCALLS}
    outcomes = await Intruder(compute).try_all(attempts)
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "refused"} == {}
    families = {name: f"socket.socket({int(getattr(socket, name))}, 2)" for name in ("AF_VSOCK", "AF_ALG", "AF_PACKET")}
    assert all(f"[Errno {errno.EAFNOSUPPORT}]" in said for said in (await Intruder(compute).try_all(families)).values())


async def test_programs_with_threads_and_sockets_go_on_working(compute: Compute) -> None:
    """The C library tries a call that a filter cannot read, and has to fall back to another."""
    attempts = {
        "thread": "import threading; t = threading.Thread(target=print); t.start(); t.join()",
        "process": "import subprocess; subprocess.run(['true'], check=True)",
        "pair": "socket.socketpair()",
        "address": "socket.getaddrinfo('localhost', 5432)",
        "internet": "socket.socket(socket.AF_INET6)",
    }
    program = "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()): "
    outcomes = await Intruder(compute).try_all({name: program + code for name, code in attempts.items()})
    assert set(outcomes.values()) == {"done"}


def test_we_keep_what_computes_give_up(compute: Compute) -> None:
    assert "Seccomp:\t2" in Path(f"/proc/{compute.pid}/status").read_text()
    assert "Seccomp:\t0" in Path("/proc/self/status").read_text()


ORDINARY = """
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
    done = subprocess.run([sys.executable, "-c", ORDINARY], capture_output=True, text=True, check=False)
    assert "unshare failed: Operation not permitted" in done.stdout, done.stderr


def verdict(machine: seccomp.SyscallTable, call: int, argument: int = 0, architecture: int | None = None) -> int:
    """What the kernel would do, by running the filter as it does: 0 to allow, or the number of the error."""
    data = struct.pack("=IIQQ", call, machine.audit_arch if architecture is None else architecture, 0, argument)
    program = list(struct.iter_unpack("=HBBI", b"".join(seccomp._instructions(machine))))
    held = place = 0
    while True:
        code, then, otherwise, value = program[place]
        place += 1
        if code == 0x06:
            return 0 if value == 0x7FFF0000 else value & 0xFFFF
        if code == 0x20:
            [held] = struct.unpack_from("=I", data, value)
        else:
            is_true = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
            place += then if is_true else otherwise


@pytest.mark.parametrize("name", sorted(SYSCALL_TABLES))
def test_the_filter_of_each_architecture(name: str) -> None:
    machine, other = SYSCALL_TABLES[name], next(each for key, each in SYSCALL_TABLES.items() if key != name)
    calls = machine.numbers
    assert {verdict(machine, calls[each]) for each in DENIED_SYSCALLS} == {errno.EPERM}
    assert verdict(machine, calls["clone3"]) == errno.ENOSYS
    for call in ("clone", "unshare"):
        assert verdict(machine, calls[call], NEW_USER | 17) == errno.EPERM
        assert verdict(machine, calls[call], THREAD) == 0
    assert (verdict(machine, calls["unshare"], NEW_TIME), verdict(machine, calls["clone"], NEW_TIME)) == (1, 0)
    families = {family: verdict(machine, calls["socket"], family) for family in range(46)}
    assert {family for family, said in families.items() if said == 0} == {1, 2, 10, 16}
    assert set(families.values()) == {0, errno.EAFNOSUPPORT}
    assert verdict(machine, 63, architecture=other.audit_arch) == errno.EPERM
    assert verdict(machine, 63 | 0x40000000) == errno.EPERM
    known = set(calls.values())
    assert {verdict(machine, call, 0xFFFFFFFF) for call in range(500) if call not in known} == {0}

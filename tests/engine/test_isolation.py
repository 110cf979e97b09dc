"""What a tenant can and cannot do, and who can connect through the socket."""

import asyncio
import fcntl
import os
import pwd
import resource
import signal
import socket
import stat
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bough.config import is_root
from bough.engine.local.isolation import launcher, processes
from bough.engine.local.isolation.sandbox import ENVIRONMENT, find_initdb_identity
from support.engine_home import ROLE, Compute, EngineHome
from support.requirements import require_root

WORLD_WRITABLE = {"/dev/null", "/dev/random", "/dev/urandom"}


def get_server_reply(compute_sockets: str, uid: int, role: str) -> str:
    """Return the server's reply to a process of that user, which the server identifies by peer credentials.

    The process opens the socket before it changes its user, because few users can traverse the folder.
    """
    socket_fd = os.open(f"{compute_sockets}/.s.PGSQL.5432", os.O_PATH)
    with run_as(uid), socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(10)
        try:
            caller.connect(f"/proc/self/fd/{socket_fd}")
        finally:
            os.close(socket_fd)
        startup = struct.pack("!I", 196608) + b"user\0" + role.encode() + b"\0database\0postgres\0\0"
        caller.sendall(struct.pack("!I", len(startup) + 4) + startup)
        return caller.recv(4096).decode(errors="replace")


def reach(compute_sockets: str, uid: int, gid: int) -> None:
    with run_as(uid, gid), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(f"{compute_sockets}/.s.PGSQL.5432")


@contextmanager
def run_as(uid: int, gid: int | None = None) -> Iterator[None]:
    os.setegid(uid if gid is None else gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def gateway(home: EngineHome) -> pwd.struct_passwd:
    return pwd.getpwnam(home.settings.gateway_user)


async def host(compute: Compute) -> str:
    address = await compute.get_address()
    assert address is not None
    return address.host


async def test_a_tenant_is_not_a_superuser_and_cannot_become_one(tenant_compute: Compute) -> None:
    flags = "select rolsuper, rolcreatedb, rolcreaterole, rolbypassrls from pg_roles where rolname = current_user"
    async with tenant_compute.connect() as db:
        assert tuple(await db.fetchrow(flags)) == (False, True, True, True)
        for statement in (
            f"alter role {ROLE} superuser",
            "create role boss superuser",
            "set role bough_admin",
            "grant bough_admin to neondb_owner",
            "grant pg_execute_server_program to neondb_owner",
            "alter role bough_admin password 'x'",
            "alter system set work_mem = '1GB'",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await db.execute(statement)


async def test_a_tenant_reaches_no_file_and_no_program(tenant_compute: Compute) -> None:
    async with tenant_compute.connect() as db:
        for statement in (
            "copy (select 1) to program 'true'",
            "create table t (x text); copy t from program 'id'",
            "copy (select 1) to '/dev/null'",
            "select pg_read_file('/etc/passwd')",
            "select lo_import('/etc/passwd')",
            "create function c() returns int language c as '$libdir/file_fdw', 'file_fdw_handler'",
            "load '/tmp/evil.so'",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await db.execute(statement)


async def test_a_tenant_creates_the_extensions_we_allow(tenant_compute: Compute) -> None:
    async with tenant_compute.connect() as db:
        for extension in ("pgcrypto", "pg_stat_statements", "hstore", "postgres_fdw", '"uuid-ossp"'):
            await db.execute(f"create extension {extension}")
        assert await db.fetchval("select length(gen_random_bytes(8))") == 8


async def test_dangerous_extensions_are_not_there(tenant_compute: Compute) -> None:
    async with tenant_compute.connect() as db:
        for extension in ("file_fdw", "plperlu", "pageinspect", "plpython3u"):
            with pytest.raises(asyncpg.FeatureNotSupportedError, match=r"is not (available|offered)"):
                await db.execute(f"create extension {extension}")


async def test_a_tenant_cannot_write_where_our_sessions_work(tenant_compute: Compute) -> None:
    async with tenant_compute.connect(database="postgres") as db:
        for statement in (
            "create table trap ()",
            "create schema trap",
            "create function pg_catalog.trap() returns int",
        ):
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.InvalidFunctionDefinitionError)):
                await db.execute(statement)


async def test_a_tenant_does_not_reach_our_role_through_its_own_server(tenant_compute: Compute) -> None:
    """dblink runs inside the server as the compute's user, which pg_ident.conf maps to no role."""
    sockets = await host(tenant_compute)
    async with tenant_compute.connect() as db:
        await db.execute("create extension dblink")
        with pytest.raises(asyncpg.PostgresError, match=r"password|Peer authentication failed"):
            await db.execute(f"select dblink_connect('host={sockets} user=bough_admin dbname=postgres')")


async def test_the_computes_own_user_gets_in_as_nobody(tenant_compute: Compute) -> None:
    require_root()
    for uid in (tenant_compute.data_folder.stat().st_uid, 65534):
        for role in ("bough_admin", ROLE):
            assert "Peer authentication failed" in get_server_reply(await host(tenant_compute), uid, role)


async def test_the_gateways_user_gets_in_as_any_role_but_ours(home: EngineHome, tenant_compute: Compute) -> None:
    require_root()
    uid = gateway(home).pw_uid
    assert "Peer authentication failed" in get_server_reply(await host(tenant_compute), uid, "bough_admin")
    assert "Peer authentication failed" in get_server_reply(await host(tenant_compute), uid, "bough_anything")
    assert get_server_reply(await host(tenant_compute), uid, ROLE).startswith("R\0\0\0\x08\0\0\0\0")


async def test_the_socket_folder_is_open_to_the_gateways_group_only(home: EngineHome, tenant_compute: Compute) -> None:
    folder = Path(await host(tenant_compute))
    seen = await asyncio.to_thread(folder.stat)
    assert stat.S_IMODE(seen.st_mode) == 0o710
    assert (seen.st_uid, seen.st_gid) == (os.geteuid(), gateway(home).pw_gid if is_root() else os.getegid())
    assert stat.S_IMODE(home.settings.sockets.stat().st_mode) == (0o711 if is_root() else 0o700)


async def test_other_users_do_not_even_reach_the_socket(home: EngineHome, tenant_compute: Compute) -> None:
    require_root()
    other = await home.create_branch()
    sockets = await host(tenant_compute)
    for uid in (tenant_compute.data_folder.stat().st_uid, other.data_folder.stat().st_uid, 65534):
        with pytest.raises(PermissionError):
            reach(sockets, uid, uid)
    reach(sockets, gateway(home).pw_uid, gateway(home).pw_gid)


async def test_a_server_that_recovers_by_itself_keeps_its_sealed_socket(home: EngineHome) -> None:
    compute = await home.create_compute()
    pid, socket_number = compute.pid, (Path(await host(compute)) / ".s.PGSQL.5432").stat().st_ino
    backend = await compute.fetch_value("select pg_backend_pid()")
    os.kill(processes.list_children(pid)[0], signal.SIGKILL)
    assert await value_after_recovery(compute, "select pg_backend_pid()") != backend
    assert (compute.pid, (Path(await host(compute)) / ".s.PGSQL.5432").stat().st_ino) == (pid, socket_number)


async def value_after_recovery(compute: Compute, sql: str) -> Any:
    while True:
        try:
            return await compute.fetch_value(sql)
        except (asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError, ConnectionError):
            await asyncio.sleep(0.02)


async def test_a_compute_runs_as_its_project_and_inherits_nothing(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOUGH_TEST_SECRET", "hunter2")
    compute = await home.create_compute()
    process = Path(f"/proc/{compute.pid}")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    uid = str(compute.data_folder.stat().st_uid)
    assert status["Uid"].split() == [uid] * 4
    if os.geteuid() == 0:
        assert status["Gid"].split() == [uid] * 4
        assert status["Groups"].split() == []
    variables = (process / "environ").read_bytes().split(b"\0")
    assert {word.split(b"=")[0].decode() for word in variables if word} <= set(ENVIRONMENT) | {
        "LD_PRELOAD",
        "PGGRANDPARENTPID",
        "OPENSSL_CONF",
    }
    assert os.getsid(compute.pid) == compute.pid
    assert (process / "status").read_text().split("Umask:\t")[1].startswith("0077")
    assert "Max core file size        0                    0" in (process / "limits").read_text()


async def test_a_compute_holds_no_file_of_ours(home: EngineHome) -> None:
    """Not even descriptors that a child could inherit: it has only its own pipes, sockets and files."""
    with ExitStack() as stack:
        lock = os.open(home.settings.home / "store.db", os.O_CREAT | os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        pair = [each.detach() for each in socket.socketpair()]
        for number in (lock, *pair, *os.pipe()):
            stack.callback(os.close, number)
            os.set_inheritable(number, True)
        compute = await home.create_compute()
        own_names = open_files(os.getpid())
        assert {f"socket:[{os.fstat(number).st_ino}]" for number in pair} < own_names
        pids = [compute.pid, *processes.list_children(compute.pid)]
        assert len(pids) > 3
        for pid in pids:
            open_names = open_files(pid)
            assert open_names & own_names <= WORLD_WRITABLE | {
                name for name in open_names if name.startswith("anon_inode:")
            }
            files = {name for name in open_names if name.startswith("/")} - {*WORLD_WRITABLE, str(compute.log_file)}
            assert {name for name in files if not Path(name).is_relative_to(compute.data_folder)} == set()


def open_files(pid: int) -> set[str]:
    """Return none for a process that has ended."""
    found = set()
    with suppress(FileNotFoundError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed in the meantime
                found.add(str(link.readlink()))
    return found


async def test_a_compute_and_all_it_starts_can_gain_no_privilege(home: EngineHome) -> None:
    compute = await home.create_compute()
    assert flag(Path(f"/proc/{compute.pid}/status").read_text()) == "1"
    for pid in processes.list_children(compute.pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # ended in the meantime
            assert flag(Path(f"/proc/{pid}/status").read_text()) == "1"


def test_whoever_makes_the_template_can_gain_no_privilege_and_we_keep_ours() -> None:
    command = ["cat", "/proc/self/status"]
    with launcher.spawn(command, find_initdb_identity(), stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert flag(started.stdout.read().decode()) == "1"
    assert flag(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == "0"
    assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)


def flag(status: str) -> str:
    return status.split("NoNewPrivs:\t")[1][0]

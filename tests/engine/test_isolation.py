"""What a tenant can and cannot do, and who gets in by the socket."""

import asyncio
import os
import socket
import stat
import struct
from pathlib import Path

import asyncpg
import pytest

from bough.config import running_as_root
from bough.engine.local.sandbox import ENVIRONMENT
from engine.homes import ROLE, Compute, Home
from requires import require_root


def answer_to(compute_sockets: str, uid: int, role: str) -> str:
    """What the server says to a process of that user; the kernel tells it who connects."""
    startup = struct.pack("!I", 196608) + b"user\0" + role.encode() + b"\0database\0postgres\0\0"
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(10)
        os.setegid(uid)
        os.seteuid(uid)
        try:
            caller.connect(f"{compute_sockets}/.s.PGSQL.5432")
        finally:
            os.seteuid(0)
            os.setegid(0)
        caller.sendall(struct.pack("!I", len(startup) + 4) + startup)
        return caller.recv(4096).decode(errors="replace")


async def host(compute: Compute) -> str:
    address = await compute.address()
    assert address is not None
    return address.host


async def test_a_tenant_is_not_a_superuser_and_cannot_become_one(tenant: Compute) -> None:
    flags = "select rolsuper, rolcreatedb, rolcreaterole, rolbypassrls from pg_roles where rolname = current_user"
    async with tenant.connect() as db:
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


async def test_a_tenant_reaches_no_file_and_no_program(tenant: Compute) -> None:
    async with tenant.connect() as db:
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


async def test_a_tenant_creates_the_extensions_we_allow(tenant: Compute) -> None:
    async with tenant.connect() as db:
        for extension in ("pgcrypto", "pg_stat_statements", "hstore", "postgres_fdw", '"uuid-ossp"'):
            await db.execute(f"create extension {extension}")
        assert await db.fetchval("select length(gen_random_bytes(8))") == 8


async def test_dangerous_extensions_are_not_there(tenant: Compute) -> None:
    async with tenant.connect() as db:
        for extension in ("file_fdw", "plperlu", "pageinspect", "plpython3u"):
            with pytest.raises(asyncpg.FeatureNotSupportedError, match="is not available"):
                await db.execute(f"create extension {extension}")


async def test_a_tenant_cannot_write_where_our_sessions_work(tenant: Compute) -> None:
    async with tenant.connect(database="postgres") as db:
        for statement in (
            "create table trap ()",
            "create schema trap",
            "create function pg_catalog.trap() returns int",
        ):
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.InvalidFunctionDefinitionError)):
                await db.execute(statement)


async def test_a_tenant_does_not_reach_our_role_through_its_own_server(tenant: Compute) -> None:
    """dblink runs inside the server, under the compute's user, which the peer map lets in as nobody."""
    sockets = await host(tenant)
    async with tenant.connect() as db:
        await db.execute("create extension dblink")
        with pytest.raises(asyncpg.PostgresError, match=r"password|Peer authentication failed"):
            await db.execute(f"select dblink_connect('host={sockets} user=bough_admin dbname=postgres')")


async def test_the_computes_own_user_gets_in_as_nobody(tenant: Compute) -> None:
    require_root()
    uid = tenant.data.stat().st_uid
    for role in ("bough_admin", ROLE):
        assert "Peer authentication failed" in answer_to(await host(tenant), uid, role)


async def test_the_socket_folder_is_open_to_our_group_only(home: Home, tenant: Compute) -> None:
    folder = Path(await host(tenant))
    seen = await asyncio.to_thread(folder.stat)
    assert stat.S_IMODE(seen.st_mode) == 0o710
    assert (seen.st_uid, seen.st_gid) == (tenant.data.stat().st_uid, os.getegid())
    assert stat.S_IMODE(home.settings.sockets.stat().st_mode) == (0o711 if running_as_root() else 0o700)


async def test_other_users_do_not_even_reach_the_socket(home: Home, tenant: Compute) -> None:
    require_root()
    other = await home.branch()
    for uid in (other.data.stat().st_uid, 65534):
        with pytest.raises(PermissionError):
            answer_to(await host(tenant), uid, ROLE)


async def test_a_compute_runs_as_its_project_and_inherits_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOUGH_TEST_SECRET", "hunter2")
    compute = await home.compute()
    process = Path(f"/proc/{compute.pid}")
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    uid = str(compute.data.stat().st_uid)
    assert status["Uid"].split() == [uid] * 4
    if os.geteuid() == 0:
        assert status["Gid"].split() == [uid] * 4
        assert status["Groups"].split() == []
    variables = (process / "environ").read_bytes().split(b"\0")
    assert {word.split(b"=")[0].decode() for word in variables if word} <= set(ENVIRONMENT) | {"PGGRANDPARENTPID"}
    assert os.getsid(compute.pid) == compute.pid
    open_files = {str(link.readlink()) for link in (process / "fd").iterdir()}
    assert not any("store" in name or str(home.settings.keys) in name for name in open_files)
    assert (process / "status").read_text().split("Umask:\t")[1].startswith("0077")

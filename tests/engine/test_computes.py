"""Computes: names, passwords, settings, crashes, and error messages when one cannot start."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import asyncpg
import pytest

from bough.engine.local.computes import computes, postmaster, process, session
from bough.engine.local.computes.compute_log import START_MARKER
from bough.engine.local.computes.launch_options import LaunchOptions
from bough.engine.local.computes.pid_file import READY, PidFile
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.port import EngineError, Readiness
from bough.engine.spec import DatabaseSpec, RoleSpec, build_compute_settings
from bough.ids import EndpointId, VolumeId
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE
from bough.postgres.scram import scram_verifier
from support.engine_home import DATABASE, ROLE, VERIFIER, Compute, EngineHome, make_branch_spec
from support.requirements import require

DIARY, NOTES = (DatabaseSpec(name=name, owner="writer") for name in ("diary", "notes"))
ODD_NAMES = [
    ('say "hi"', "it's"),
    ("größe", "数据库"),
    ("r" * 63, "d" * 63),
    ("é" * 31, "ü" * 31),
    ("-- drop", "a;b\\c"),
    ("/^.*$", "+all"),
]


def begin_to_stop(compute: Compute) -> None:
    """Wait until the pid file shows the shutdown: delivery of the signal takes a moment."""
    os.kill(compute.pid, signal.SIGINT)
    while (file := PidFile.read(compute.data_folder)) is not None and file.status == READY:
        time.sleep(0.001)


async def verifier(compute: Compute, role: str) -> str:
    sql = f"select rolpassword from pg_authid where rolname = '{role}'"
    return str(await compute.fetch_value(sql, ADMIN_ROLE, MAINTENANCE_DATABASE))


async def test_the_default_names_are_taken_over_from_the_template(home: EngineHome) -> None:
    compute = await home.create_compute()
    assert await compute.fetch_value("select current_user || '@' || current_database()") == f"{ROLE}@{DATABASE}"
    assert await verifier(compute, ROLE) == VERIFIER


@pytest.mark.parametrize(("role", "database"), ODD_NAMES)
async def test_any_legal_name_works(home: EngineHome, role: str, database: str) -> None:
    compute = await home.create_compute(
        roles=(RoleSpec(name=role, verifier=VERIFIER),), databases=(DatabaseSpec(name=database, owner=role),)
    )
    owner = "select pg_get_userbyid(datdba) from pg_database where datname = current_database()"
    assert await compute.fetch_value(owner, role, database) == role
    present = await compute.fetch_value("select array_agg(datname::text) from pg_database", role, database)
    assert sorted(present) == sorted(["postgres", "template0", "template1", database])


@pytest.mark.parametrize("cut_off", ["alter database", "the note"])
async def test_roles_and_databases_that_a_crash_left_half_made_are_finished(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch, cut_off: str
) -> None:
    execute = session.ComputeSession._execute_statement

    async def crash(*_: object) -> None:
        raise EngineError("as if control died here", transient=False)

    async def execute_or_crash(self: session.ComputeSession, statement: str) -> None:
        await (crash() if statement.startswith(cut_off) else execute(self, statement))

    with monkeypatch.context() as patched:
        patched.setattr(session.ComputeSession, "_execute_statement", execute_or_crash)
        if cut_off == "the note":
            patched.setattr(VolumeFolder, "write_applied_digest", lambda *_: asyncio.run(crash()))
        with pytest.raises(EngineError, match="died here"):
            await home.create_compute(roles=(RoleSpec(name="writer", verifier=VERIFIER),), databases=(DIARY, NOTES))
    [compute] = home.computes
    assert await compute.start() is Readiness.READY
    assert await verifier(compute, "writer") == VERIFIER
    owner = "select pg_get_userbyid(datdba) from pg_database where datname = current_database()"
    assert [await compute.fetch_value(owner, "writer", name) for name in ("diary", "notes")] == ["writer", "writer"]


async def test_any_legal_name_works_on_an_older_version(home: EngineHome) -> None:
    """There pg_ident.conf lists every role, each with its own quoting."""
    require_system_15()
    compute = await home.create_compute(
        15,
        roles=tuple(RoleSpec(name=role, verifier=VERIFIER) for role, _ in ODD_NAMES),
        databases=tuple(DatabaseSpec(name=database, owner=role) for role, database in ODD_NAMES),
    )
    for role, database in ODD_NAMES:
        assert await compute.fetch_value("select current_user::text", role, database) == role
    assert await compute.fetch_value("show server_version_num", *ODD_NAMES[0]) >= "150000"


async def test_a_new_role_gets_in_on_an_older_version_too(home: EngineHome) -> None:
    require_system_15()
    compute = await home.create_compute(15)
    pid = compute.pid
    await compute.start(roles=(*compute.spec.roles, RoleSpec(name="second", verifier=VERIFIER)))
    assert await compute.fetch_value("select current_user", "second") == "second"
    assert compute.pid == pid


async def test_a_password_changed_with_sql_survives(home: EngineHome) -> None:
    compute = await home.create_compute()
    changed = scram_verifier("another")
    await compute.fetch_value(f"alter role {ROLE} password '{changed}'")
    await compute.suspend()
    await compute.start()
    assert await verifier(compute, ROLE) == changed
    known = RoleSpec(name=ROLE, verifier=None)
    await compute.start(roles=(known, RoleSpec(name="second", verifier=VERIFIER)))
    assert await verifier(compute, ROLE) == changed
    assert await verifier(compute, "second") == VERIFIER


async def test_a_password_that_is_wished_again_is_set_over_one_changed_with_sql(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value(f"alter role {ROLE} password '{scram_verifier('another')}'")
    target = scram_verifier("wished")
    await compute.start(roles=(RoleSpec(name=ROLE, verifier=target),))
    assert await verifier(compute, ROLE) == target


async def test_a_dropped_default_database_is_not_taken_over_later(home: EngineHome) -> None:
    """The spare names of the template are ordinary names once a client has used the volume."""
    other = (RoleSpec(name="app", verifier=VERIFIER),)
    compute = await home.create_compute(roles=other, databases=(DatabaseSpec(name="app", owner="app"),))
    await compute.fetch_value("create database neondb", "app", "app")
    await compute.start(databases=(*compute.spec.databases, DatabaseSpec(name="more", owner="app")))
    present = await compute.fetch_value("select array_agg(datname::text) from pg_database", "app", "app")
    assert {"neondb", "more", "app"} <= set(present)


async def test_a_role_that_may_not_log_in_is_not_made_twice(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value("create role sleeper nologin")
    roles = (*compute.spec.roles, RoleSpec(name="sleeper", verifier=VERIFIER))
    assert await compute.start(roles=roles) is Readiness.READY


async def test_a_setting_that_can_be_reloaded_needs_no_restart(home: EngineHome) -> None:
    compute = await home.create_compute()
    pid = compute.pid
    await compute.start(settings={**compute.spec.settings, "work_mem": "7MB"})
    assert await compute.fetch_value("show work_mem") == "7MB"
    assert compute.pid == pid


async def test_a_setting_that_cannot_restarts_the_compute_and_keeps_the_data(home: EngineHome) -> None:
    compute = await home.create_compute()
    pid = compute.pid
    await compute.fetch_value("create table kept as select 1 as one")
    await compute.start(settings=build_compute_settings(0.25, logical_replication=True))
    assert await compute.fetch_value("show wal_level") == "logical"
    assert await compute.fetch_value("select one from kept") == 1
    assert compute.pid != pid


async def test_settings_changed_while_it_slept_are_there_at_the_wake(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.suspend()
    await compute.start(settings=build_compute_settings(1, logical_replication=False))
    assert await compute.fetch_value("show max_connections") == "450"


async def test_a_wrong_setting_is_named(home: EngineHome) -> None:
    compute = await home.create_branch()
    with pytest.raises(EngineError, match='invalid value for parameter "wal_level": "much"') as refused:
        await compute.start(settings={**compute.spec.settings, "wal_level": "much"})
    assert not refused.value.transient
    await compute.start(settings=build_compute_settings(0.25, logical_replication=False))
    right = compute.spec.settings
    for wrong in ({"work_mem": "much"}, {"wal_level": "much"}, {"no_such": "on", "wal_level": "logical"}):
        with pytest.raises(EngineError, match=f"cannot take its setting {next(iter(wrong))}") as refused:
            await compute.start(settings={**right, **wrong})
        assert not refused.value.transient
    assert await compute.fetch_value("show work_mem") == "4MB"
    assert await compute.start(settings=right) is Readiness.READY


async def test_a_crash_loses_nothing_that_was_committed(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value("create table kept as select generate_series(1, 1000) as n")
    await compute.kill()
    assert compute.spec.endpoint_id not in (await home.engine.observe()).running_endpoints
    assert await compute.get_address() is None
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select count(*) from kept") == 1000


async def test_a_busy_backend_of_a_killed_postmaster_is_in_nobodys_way(home: EngineHome) -> None:
    compute = await home.create_compute()
    async with compute.connect() as db:
        busy = asyncio.ensure_future(db.fetchval("select count(*) from generate_series(1, 1000000000)"))
        await asyncio.sleep(0.2)
        await compute.kill()
        assert await compute.start() is Readiness.READY
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await busy
    assert await compute.fetch_value("select 1") == 1


async def test_a_pid_file_that_names_a_stranger_is_in_nobodys_way(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.kill()
    lines = (compute.data_folder / "postmaster.pid").read_text().splitlines()
    for stranger in (os.getpid(), 1):
        (compute.data_folder / "postmaster.pid").write_text("\n".join([str(stranger), *lines[1:]]))
        assert compute.spec.endpoint_id not in (await home.engine.observe()).running_endpoints
        assert await compute.start() is Readiness.READY
        await compute.kill()


async def test_a_forged_pid_file_fools_nobody(home: EngineHome) -> None:
    """A tenant's code can write to its data directory, which root reads."""
    compute = await home.create_branch()
    path = compute.data_folder / "postmaster.pid"
    forgeries: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to("/etc/passwd"),
        "garbage": lambda: path.write_text("9" * 5000),
        "nobody": lambda: path.write_text("0\n"),
    }
    for forge in forgeries.values():
        forge()
        assert PidFile.read(compute.data_folder) is None
        assert await compute.get_address() is None
        path.unlink()
    path.mkdir()
    assert PidFile.read(compute.data_folder) is None


async def test_a_slow_start_is_told_and_asked_again(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await home.create_branch()
    started: list[int] = []

    def start_and_stop(launch: LaunchOptions, start_context: AbstractContextManager[None]) -> int:
        started.append(process_start(launch, start_context))
        while not postmaster.is_postmaster(started[0], launch.data):  # first it is a program that changes to the user
            pass
        os.kill(started[0], signal.SIGSTOP)
        return started[0]

    process_start = process.start
    monkeypatch.setattr(process, "start", start_and_stop)
    monkeypatch.setattr(computes, "READY_TIMEOUT", 0.2)
    assert await compute.start() is Readiness.STARTING
    monkeypatch.undo()
    os.kill(started[0], signal.SIGCONT)
    assert await compute.start() is Readiness.READY
    assert compute.pid == started[0]
    assert await compute.fetch_value("select 1") == 1


async def test_many_who_ask_at_once_start_one(home: EngineHome) -> None:
    compute = await home.create_branch()
    answers = await asyncio.gather(*(compute.start() for _ in range(10)))
    assert set(answers) == {Readiness.READY}
    assert compute.log_file.read_text().count(START_MARKER) == 1


async def test_a_caller_who_leaves_does_not_start_a_second(home: EngineHome) -> None:
    compute = await home.create_branch()
    asking = asyncio.ensure_future(compute.start())
    await asyncio.sleep(0.005)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await compute.start() is Readiness.READY
    assert await compute.fetch_value("select 1") == 1


async def test_one_that_is_stopping_is_waited_for_and_started_again(home: EngineHome) -> None:
    compute = await home.create_compute()
    pid = compute.pid
    begin_to_stop(compute)
    assert await compute.start() is Readiness.READY
    assert compute.pid != pid
    assert await compute.fetch_value("select 1") == 1


async def test_an_endpoint_moves_to_another_volume(home: EngineHome) -> None:
    compute = await home.create_compute()
    before = compute.data_folder
    await compute.fetch_value("create table old ()")
    volume = VolumeId.new()
    moved = await home.create_branch(project_id=compute.spec.project_id, volume_id=volume)
    await compute.start(volume_id=volume)
    assert await compute.fetch_value("select to_regclass('old')") is None
    assert not (before / "postmaster.pid").exists()
    assert moved.data_folder == compute.data_folder


async def test_two_endpoints_do_not_share_a_volume(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = await home.create_compute()
    other = Compute(home, compute.spec)
    monkeypatch.setattr(computes, "READY_TIMEOUT", 0.1)
    with pytest.raises(EngineError, match="Another endpoint's compute") as refused:
        await other.start(endpoint_id=EndpointId.new())
    assert refused.value.transient


async def test_another_build_does_not_open_the_data(home: EngineHome) -> None:
    require_system_15()
    compute = await home.create_branch()
    with pytest.raises(EngineError, match="cannot be opened with system-15"):
        await compute.start(install="system-15")


async def test_a_broken_data_folder_is_told_in_a_sentence(home: EngineHome) -> None:
    compute = await home.create_branch()
    (compute.data_folder / "global" / "pg_control").unlink()
    with pytest.raises(EngineError, match=r"could not start: .*pg_control") as refused:
        await compute.start()
    assert not refused.value.transient
    assert str(home.settings.home) not in refused.value.public_message


async def test_a_data_folder_of_nothing_is_told_in_a_sentence(home: EngineHome) -> None:
    compute = await home.create_branch()
    (compute.data_folder / "PG_VERSION").write_text("")
    with pytest.raises(EngineError, match=r"could not start: .*is not a valid data directory"):
        await compute.start()


async def test_the_template_is_not_what_branches_write_to(home: EngineHome) -> None:
    compute = await home.create_compute()
    await compute.fetch_value("create table only_here ()")
    other = await home.create_compute()
    assert await other.fetch_value("select to_regclass('only_here')") is None
    assert not (home.settings.home / "templates" / home.get_install() / "postmaster.pid").exists()


async def test_a_branch_made_twice_at_once_is_made_once(home: EngineHome) -> None:
    compute = await home.create_branch()
    await asyncio.gather(*(home.engine.ensure_branch(make_branch_spec(compute.spec)) for _ in range(5)))
    assert await compute.start() is Readiness.READY


def require_system_15() -> None:
    require("system-15", Path("/usr/lib/postgresql/15/bin/postgres").exists(), "this machine has no Postgres 15")

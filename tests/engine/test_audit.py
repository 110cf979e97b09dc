"""The audit of statements: what each level records, with pgAudit and with a build that lacks it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bough.domain.audit_level import AuditLevel
from bough.engine.local.computes import auditing
from bough.engine.local.computes.audit_collection import AuditRetention
from bough.engine.port import Readiness
from bough.postgres.statement_audit import JSON_FILE
from support.engine_home import ROLE, Compute, EngineHome

BUILDS = ("pgaudit", "log_statement")


@pytest.fixture(params=BUILDS)
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether computes can use pgAudit."""
    name: str = request.param
    if name == "log_statement":
        monkeypatch.setattr(auditing, "_can_use_pgaudit", lambda *_: False)
    return name


async def start_audited(home: EngineHome, level: AuditLevel | None, **changes: Any) -> Compute:
    compute = await home.create_branch()
    assert await compute.start(audit_level=level, **changes) is Readiness.READY
    return compute


def audit_path(compute: Compute) -> Path:
    return compute.log_file.with_suffix(".audit")


async def read_entries(compute: Compute) -> list[dict[str, Any]]:
    await compute.home.engine.collect_audit_logs()
    path = audit_path(compute)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def read_texts(compute: Compute) -> str:
    return "\n".join(f"{each['event']} {each.get('parameters', '')}" for each in await read_entries(compute))


async def run_statements(compute: Compute) -> None:
    async with compute.connect() as session:
        await session.execute("create table kept (number int)")
        await session.execute("create role other password 'secret word'")
        await session.fetch("select number from kept where number = $1", 4711)
        await session.execute("set application_name = 'my tool'")
        await session.execute("insert into kept values (1)")


async def test_base_records_definitions_and_roles_only(home: EngineHome, build: str) -> None:
    compute = await start_audited(home, AuditLevel.BASE)
    await run_statements(compute)
    await compute.suspend()  # the server's log is complete
    entries = await read_entries(compute)
    assert [word for each in entries for word in ("create table", "create role") if word in each["event"]] == [
        "create table",
        "create role",
    ]
    assert len(entries) == 2
    assert all(each["event"].startswith("SESSION," if build == "pgaudit" else "statement: ") for each in entries)
    assert {(each["role"], each["database"]) for each in entries} == {(ROLE, "neondb")}
    assert entries[0]["timestamp"].endswith("Z")
    assert ("secret word" in entries[1]["event"]) == (build == "log_statement")  # pgAudit removes passwords


async def test_extended_records_statements_without_parameters(home: EngineHome, build: str) -> None:
    compute = await start_audited(home, AuditLevel.EXTENDED)
    await run_statements(compute)
    await compute.suspend()  # the server's log is complete
    text = await read_texts(compute)
    assert "select number from kept" in text
    assert "insert into kept values (1)" in text
    assert "4711" not in text
    assert "connection authorized" not in text
    (insert,) = [each for each in await read_entries(compute) if "insert" in each["event"]]
    assert insert["application"] == "my tool"


async def test_full_records_parameters_and_connections(home: EngineHome, build: str) -> None:
    compute = await start_audited(home, AuditLevel.FULL)
    await run_statements(compute)
    await compute.suspend()
    text = await read_texts(compute)
    assert "4711" in text
    assert "connection authorized: user=neondb_owner" in text
    assert "disconnection: session time" in text


async def test_only_pgaudit_sees_inside_functions(home: EngineHome, build: str) -> None:
    compute = await start_audited(home, AuditLevel.BASE)
    async with compute.connect() as session:
        await session.execute("do $$ begin execute 'create table hidden ()'; end $$")
    assert ("create table hidden" in await read_texts(compute)) == (build == "pgaudit")


async def test_a_level_takes_effect_on_a_running_compute_and_ends_again(home: EngineHome) -> None:
    compute = await start_audited(home, None)
    await run_statements(compute)
    assert await read_entries(compute) == []
    pid = compute.pid
    await compute.start(audit_level=AuditLevel.EXTENDED)
    assert compute.pid != pid
    pid = compute.pid
    await compute.start(audit_level=AuditLevel.FULL)
    assert compute.pid == pid  # only the first level needs a restart
    await compute.fetch_value("select 11")
    await compute.start(audit_level=None)
    await compute.fetch_value("select 22")
    text = await read_texts(compute)
    assert "select 11" in text
    assert "select 22" not in text
    assert await compute.fetch_value("show logging_collector") == "off"


async def test_the_ordinary_log_goes_on_and_nobody_else_can_read_either(home: EngineHome) -> None:
    compute = await start_audited(home, AuditLevel.EXTENDED)
    async with compute.connect() as session:
        await session.execute("do $$ begin raise log 'into the ordinary log'; end $$")
    await compute.suspend()
    await read_entries(compute)
    log = compute.log_file.read_text()
    assert "into the ordinary log" in log
    assert "database system is shut down" in log
    assert audit_path(compute).stat().st_mode & 0o777 == 0o600
    folder = home.settings.compute_audit / compute.spec.endpoint_id
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.glob("server.*")} == {
        "server.log": 0o620,
        "server.json": 0o620,
    }
    assert folder.stat().st_mode & 0o777 == 0o711


async def test_the_platforms_own_sessions_are_not_recorded(home: EngineHome, build: str) -> None:
    compute = await start_audited(home, AuditLevel.FULL)
    assert await home.engine.read_compute_contents(compute.spec.endpoint_id) is not None
    assert "bough_admin" not in await read_texts(compute)
    raw = (home.settings.compute_audit / compute.spec.endpoint_id / JSON_FILE).read_text()
    assert "SCRAM-SHA-256" not in raw


async def test_a_branch_above_its_storage_limit_is_audited_too(home: EngineHome) -> None:
    compute = await start_audited(home, AuditLevel.EXTENDED)
    await compute.start(is_read_only=True)
    assert await compute.fetch_value("select 33") == 33
    assert "select 33" in await read_texts(compute)
    await compute.start(is_read_only=False)


async def test_an_entry_is_collected_once_whatever_ends_the_collection(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = await start_audited(home, AuditLevel.EXTENDED)
    await compute.fetch_value("select 1")
    first = await read_entries(compute)
    await compute.fetch_value("select 2")
    monkeypatch.setattr("bough.engine.local.computes.audit_collection._CollectionState.write", fail)
    with pytest.raises(KeyboardInterrupt):
        home.engine._components.audit_logs.collect_all()  # ends after the entries and before their position
    monkeypatch.undo()
    assert len(audit_path(compute).read_text().splitlines()) > len(first)
    entries = await read_entries(compute)
    assert [each["event"] for each in entries] == [each["event"] for each in [*first, *entries[len(first) :]]]
    assert sum("select 2" in each["event"] for each in entries) == 1
    assert await read_entries(compute) == entries


def fail(*_: object) -> None:
    raise KeyboardInterrupt


async def test_the_log_is_rotated_and_bounded(home: EngineHome, monkeypatch: pytest.MonkeyPatch) -> None:
    retention = AuditRetention(file_bytes=65_536, files_kept=2)
    monkeypatch.setattr(home.engine._components.audit_logs, "_retention", retention)
    compute = await start_audited(home, AuditLevel.EXTENDED)
    async with compute.connect() as session:
        for number in range(6):
            for _ in range(8):
                await session.execute(f"select {number} /* {'x' * 10_000} */")
            await home.engine.collect_audit_logs()
    files = sorted(path.name for path in audit_path(compute).parent.glob(f"{compute.spec.endpoint_id}.audit*"))
    assert files == [f"{compute.spec.endpoint_id}.audit{suffix}" for suffix in ("", ".1", ".2.gz")]
    source = home.settings.compute_audit / compute.spec.endpoint_id / JSON_FILE
    assert source.stat().st_blocks * 512 < 65_536  # what was collected takes no space


async def test_a_statement_of_megabytes_is_recorded_in_part(home: EngineHome, build: str) -> None:
    compute = await start_audited(home, AuditLevel.EXTENDED)
    async with compute.connect() as session:
        await session.execute("select 'long' /* " + "x\n" * 1_500_000 + " */")
    (entry,) = [each for each in await read_entries(compute) if "select 'long'" in each["event"]]
    assert entry["event"].endswith(" …")
    assert len(entry["event"]) < 20_000
    assert entry["role"] == ROLE


async def test_a_compute_of_another_build_is_audited_by_log_statement(home: EngineHome) -> None:
    compute = await home.create_branch()
    spec = replace(compute.spec, audit_level=AuditLevel.BASE)
    install = await home.engine._components.install_catalog.require_install(spec.install, spec.project_id)
    assert auditing.uses_pgaudit(auditing.preload(spec, install), install)
    without = replace(install, bin=Path("/nowhere/bin"))
    assert auditing.preload(spec, without) == spec

"""A tenant cannot forge, suppress or lower the audit of statements, whatever it may write to the ordinary log."""

import html
import json
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from bough.domain.audit_level import AuditLevel
from bough.engine.local.computes import auditing
from bough.engine.port import Readiness
from bough.postgres import preload_libraries
from support.engine_home import DATABASE, ROLE, Compute, EngineHome

FORGED = "AUDIT: SESSION,1,1,DDL,DROP TABLE,TABLE,public.victim,forged,<none>"
# A line as the server writes it, with the function that audits.
FORGED_LINE = json.dumps(
    {
        "timestamp": "2030-01-01 00:00:00.000 UTC",
        "user": "victim",
        "dbname": DATABASE,
        "pid": 1,
        "error_severity": "LOG",
        "message": FORGED,
        "func_name": "log_audit_event",
        "file_name": "pgaudit.c",
    }
)
LOWERINGS = (
    "set pgaudit.log = 'none'",
    "set pgaudit.log_level = 'debug5'",
    "set log_statement = 'none'",
    "set log_min_messages = 'panic'",
    "set log_error_verbosity = 'terse'",
    "set log_destination = 'stderr'",
    "select set_config('pgaudit.log', 'none', false)",
    f"alter role {ROLE} set pgaudit.log = 'none'",
    f"alter role {ROLE} set log_statement = 'none'",
    f"alter database {DATABASE} set pgaudit.log = 'none'",
    "select pg_rotate_logfile()",
    "select * from pg_ls_logdir()",
)


async def read_entries(compute: Compute) -> list[dict[str, Any]]:
    await compute.home.engine.collect_audit_logs()
    path = compute.log_file.with_suffix(".audit")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def is_recorded(compute: Compute, text: str) -> bool:
    return any(text in each["event"] for each in await read_entries(compute))


async def start_audited(home: EngineHome, level: AuditLevel = AuditLevel.EXTENDED) -> Compute:
    compute = await home.create_branch()
    assert await compute.start(audit_level=level) is Readiness.READY
    return compute


@pytest.mark.parametrize("has_pgaudit", [True, False])
async def test_also_messages_of_a_tenant_are_no_entries(
    home: EngineHome, monkeypatch: pytest.MonkeyPatch, *, has_pgaudit: bool
) -> None:
    if not has_pgaudit:
        monkeypatch.setattr(auditing, "_can_use_pgaudit", lambda *_: False)
    compute = await start_audited(home, AuditLevel.BASE)
    async with compute.connect() as session:
        await session.execute("set application_name = 'LOG: AUDIT: SESSION,forged'")
        for text in (
            FORGED,
            "statement: drop table forged",
            "x\n" + FORGED_LINE + "\n",
            '","func_name":"log_audit_event"',
        ):
            await session.execute(f"do $forge$ begin raise log '%', $text${text}$text$; end $forge$")
            await session.execute(f"do $forge$ begin raise warning '%', $text${text}$text$; end $forge$")
        with pytest.raises(asyncpg.PostgresError):
            await session.execute(f'select "{FORGED_LINE.replace(chr(34), chr(34) * 2)[:60]}" from nowhere')
    await compute.suspend()
    assert FORGED in compute.log_file.read_text()
    assert await read_entries(compute) == []


async def test_also_what_libraries_print_is_no_entry(home: EngineHome) -> None:
    """libxslt prints messages of a style sheet to standard error, and libpq the notices of other servers."""
    compute = await start_audited(home, AuditLevel.BASE)
    async with compute.connect() as session:
        await session.execute("create extension xml2")
        sheet = (
            '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/">'
            f"<xsl:message>\n{html.escape(FORGED_LINE, quote=False)}\n</xsl:message></xsl:template></xsl:stylesheet>"
        )
        await session.fetch("select xslt_process('<a/>', $1)", sheet)
    await compute.suspend()
    assert FORGED_LINE in compute.log_file.read_text().splitlines()  # it got into the ordinary log
    assert [each["event"] for each in await read_entries(compute) if "forged" in each["event"]] == []


async def test_also_no_setting_lowers_it(home: EngineHome) -> None:
    compute = await start_audited(home)
    async with compute.connect() as session:
        for statement in LOWERINGS:
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.CantChangeRuntimeParamError)):
                await session.execute(statement)
        with pytest.raises(asyncpg.PostgresError):
            await session.execute("create function f() returns int language sql set pgaudit.log = 'none' return 1")
            await session.execute("select f()")
        await session.execute("create extension pgaudit")  # grants its owner nothing here
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await session.execute("set pgaudit.log = 'none'")
        await session.execute("do $$ begin execute 'create table seen ()'; end $$")
    assert await is_recorded(compute, "create table seen")


async def test_also_rights_and_settings_of_before_have_no_effect(home: EngineHome) -> None:
    compute = await home.create_branch()
    loaded = {**compute.spec.settings, **preload_libraries.build_settings(["pgaudit"])}
    await compute.start(settings=loaded)
    async with compute.connect() as session:
        await session.execute("create extension pgaudit")
        await session.execute(f"alter role {ROLE} set pgaudit.log = 'none'")
        await session.execute(f"alter role {ROLE} in database {DATABASE} set pgaudit.log_level = 'debug5'")
        await session.execute(f"alter database {DATABASE} set pgaudit.log_statement = 'off'")
        await session.execute(
            "create function hide() returns void language sql set pgaudit.log = 'none' begin atomic; end"
        )
        await session.execute("set pgaudit.log = 'none'")
    # The tenant's settings of the endpoint try the same.
    own = {**loaded, "pgaudit.log": "none", "pgaudit.log_parameter_max_size": "1", "log_statement": "none"}
    assert await compute.start(settings=own, audit_level=AuditLevel.EXTENDED) is Readiness.READY
    async with compute.connect() as session:
        assert await session.fetchval("show pgaudit.log") == "all, -misc"
        await session.execute("do $$ begin execute 'create table seen ()'; end $$")
        for statement in ("set pgaudit.log = 'none'", "select hide()"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await session.execute(statement)
    assert await is_recorded(compute, "create table seen")
    await compute.suspend()
    await compute.start()
    assert await compute.fetch_value("show pgaudit.log_level") == "log"


async def test_also_a_build_whose_script_grants_the_right_uses_log_statement(
    home: EngineHome, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = await home.create_branch()
    spec = replace(compute.spec, audit_level=AuditLevel.BASE)
    install = await home.engine._components.install_catalog.require_install(spec.install, spec.project_id)
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    monkeypatch.setattr(type(install), "extensions", scripts)
    (scripts / "pgaudit--17.1.sql").write_text("GRANT SET ON PARAMETER pgaudit.log TO @extowner@;")
    assert auditing.preload(spec, install) == spec
    (scripts / "pgaudit--17.1.sql").write_text("select 1;")
    assert auditing.uses_pgaudit(auditing.preload(spec, install), install)

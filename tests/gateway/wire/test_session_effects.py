"""The effects of statements on their session, as drivers, frameworks and people write them."""

import pytest

from bough.gateway.wire.rejections import (
    CURSOR_WITH_HOLD,
    LISTEN,
    SESSION_LOCKS,
    SQL_PREPARE,
    TEMPORARY_OBJECT,
    StatementRejection,
)
from bough.gateway.wire.session_effects import NO_EFFECTS, SessionEffects, find_session_effects
from gateway.wire.conftest import PgSession
from gateway.wire.sample_statements import HARMLESS, REJECTED, SESSION_BOUND, SETTINGS, TRANSACTION_LOCAL

DIRTIES = SessionEffects(leaves_state=True)
PREPARES = SessionEffects(leaves_state=True, prepares_by_sql=True)


def effects_of(text: str, is_transaction: bool = True) -> SessionEffects:
    return find_session_effects(text.encode(), is_transaction=is_transaction)


@pytest.mark.parametrize("text", HARMLESS)
@pytest.mark.parametrize("is_transaction", [True, False])
def test_nearly_everything_is_plain(text: str, is_transaction: bool) -> None:
    assert effects_of(text, is_transaction) is NO_EFFECTS


@pytest.mark.parametrize("text", SETTINGS)
@pytest.mark.parametrize("is_transaction", [True, False])
def test_settings_are_touched(text: str, is_transaction: bool) -> None:
    found = effects_of(text, is_transaction)
    assert found == SessionEffects(changes_settings=True, custom_settings=found.custom_settings)


@pytest.mark.parametrize(("count", "text"), TRANSACTION_LOCAL)
def test_local_sets_are_counted(count: int, text: str) -> None:
    assert effects_of(text) == SessionEffects(local_sets=count)


@pytest.mark.parametrize(("rejection", "text"), REJECTED)
@pytest.mark.parametrize("is_transaction", [True, False])
def test_what_never_works(rejection: StatementRejection, text: str, is_transaction: bool) -> None:
    assert effects_of(text, is_transaction) == SessionEffects(rejection)
    assert effects_of(f"begin; {text}; commit", is_transaction) == SessionEffects(rejection)


@pytest.mark.parametrize(("rejection", "text"), SESSION_BOUND)
def test_what_works_until_the_transaction_ends(rejection: StatementRejection, text: str) -> None:
    left = PREPARES if rejection is SQL_PREPARE else DIRTIES
    assert effects_of(text) == SessionEffects(rejection)
    assert effects_of(text + ";") == SessionEffects(rejection)
    assert effects_of(text, is_transaction=False) == left
    assert effects_of(f"begin; {text}; commit") == left
    assert effects_of(f"{text}; select 1") == left


@pytest.mark.parametrize(
    "text",
    [
        "create temp table t (a int) on commit drop",
        "create temporary table if not exists t on commit drop as select 1",
        'CREATE TEMP TABLE "bulk" (LIKE items INCLUDING DEFAULTS) ON COMMIT DROP',
    ],
)
def test_what_drops_itself_is_let_through(text: str) -> None:
    assert effects_of(text) == effects_of(text, is_transaction=False) == DIRTIES


@pytest.mark.parametrize(
    "text",
    [
        "LOAD 'auto_explain'",
        "load $$pg_hint_plan$$; select 1",
        "select dblink_connect('c', 'dbname=x')",
        "select * from extensions.dblink_connect_u('c', 'dbname=x')",
        "create table t as select dblink_connect('dbname=x')",
    ],
)
def test_what_no_cleaning_helps_against(text: str) -> None:
    assert effects_of(text) == SessionEffects(prevents_reuse=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("DISCARD ALL", SessionEffects(changes_settings=True, deallocates_all=True)),
        ("deallocate all", SessionEffects(deallocates_all=True)),
        ("DEALLOCATE PREPARE ALL;", SessionEffects(deallocates_all=True)),
        ("select 1; deallocate all", SessionEffects(deallocates_all=True)),
        ("CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; UNLISTEN *; "
         "SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES",
         SessionEffects(changes_settings=True, deallocates_all=True)),
        ("set local a.b = 1; set work_mem = 64", SessionEffects(changes_settings=True, local_sets=1)),
        ("set local a.b = 1; create temp table t ()", SessionEffects(leaves_state=True, local_sets=1)),
        ("select set_config('work_mem', '64', false), dblink_connect('x')",
         SessionEffects(changes_settings=True, prevents_reuse=True)),
        ("prepare a as select 1; load 'x'",
         SessionEffects(leaves_state=True, prepares_by_sql=True, prevents_reuse=True)),
        ("deallocate a; select 1", SessionEffects(deallocates=(b"a",))),
    ],
)  # fmt: skip
def test_one_text_may_do_several_things(text: str, found: SessionEffects) -> None:
    assert effects_of(text) == found


def test_one_statement_may_do_several_things() -> None:
    text = "create temp table t as select set_config('work_mem', '64', false)"
    assert effects_of(text, is_transaction=False) == SessionEffects(changes_settings=True, leaves_state=True)


NAMES = [
    ("deallocate S_1", b"s_1"),
    ("DEALLOCATE pdo_stmt_00000001;", b"pdo_stmt_00000001"),
    ('deallocate prepare "S_1"', b"S_1"),
    ('/* x */ deallocate "a""b;c" -- d', b'a"b;c'),
    ('deallocate "all"', b"all"),
    ("deallocate prepare", b"prepare"),
    ("deallocate prepare prepare", b"prepare"),
    ("deallocate Ärger", "Ärger".encode()),
    ("deallocate " + "x" * 80, b"x" * 63),
    ('deallocate "' + "é" * 40 + '"', "é".encode() * 31),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_statements_are_forgotten_by_the_name_postgres_knows(session: PgSession, text: str, name: bytes) -> None:
    assert effects_of(text) == SessionEffects(deallocates=(name,))
    session.prepare(name)
    assert session.run(text.encode()) == ["DEALLOCATE"]


@pytest.mark.parametrize(
    "text", ["deallocate", "deallocate 'a'", "deallocate a, b", 'deallocate U&"a"', "deallocate 1"]
)
def test_what_names_no_statement(text: str) -> None:
    assert effects_of(text) is NO_EFFECTS


CUSTOM = [
    ("set app.tenant = 'x'", [b"app.tenant"]),
    ("SET SESSION App.Tenant TO x", [b"app.tenant"]),
    ('set "app"."tenant" = x; set "app.tenant" = x', [b"app.tenant"]),
    ("set a.b.c = 'x'; set work_mem = '8MB'; set local.y to 'x'", [b"a.b.c", b"local.y"]),
    ("set session.x = x; set App.Ärger = x", [b"session.x", "app.Ärger".encode()]),
    ("select set_config('app.tenant', 'x', false), set_config('app.local', 'y', true)", [b"app.tenant"]),
    ("select set_config(E'app.tenant', concat('x', ''), false)", [b"app.tenant"]),
    ("select set_config('app' || '.tenant', 'x', false)", []),
    ("select set_config('work_mem', '8MB', false)", []),
    ("begin; set local app.local = 'y'; commit", []),
]


@pytest.mark.parametrize(("text", "names"), CUSTOM)
def test_settings_of_ones_own_are_told_by_name(session: PgSession, text: str, names: list[bytes]) -> None:
    """Postgres does not list them, so their names must be known to restore them."""
    assert [*effects_of(text).custom_settings] == names
    session.run(text.encode())
    assert session.query(b"select 1 from pg_settings where name ~ '[.](tenant|c|x|y)'") == []
    assert all(session.query(b"select current_setting('%s')" % name) == [(b"x",)] for name in names)


def test_reset_names_them_too() -> None:
    assert effects_of("reset app.tenant").custom_settings == (b"app.tenant",)


# Settings of the transaction are listed for the session too, though they end with it.
KEPT = b"""
    select name, setting from pg_settings where source = 'session' and name !~ '^transaction_'
    union all values ('role', current_user::text)
    union all select name, coalesce(current_setting(name, true), '') from unnest('{a.b, a.c, custom.x}'::text[]) name
"""


@pytest.mark.parametrize("text", [*SETTINGS, *HARMLESS, *(text for _, text in TRANSACTION_LOCAL)])
def test_settings_that_postgres_keeps_were_seen_coming(session: PgSession, text: str) -> None:
    """Not the other way round: setting the current value again counts as a change too."""
    before = session.query(KEPT)
    tags = session.run(text.encode())
    session.run(b"rollback")
    found = effects_of(text)
    hidden = text.startswith("DO ")
    assert found.changes_settings or hidden or session.query(KEPT) == before
    assert found.changes_settings or tags.count("SET") <= found.local_sets


def test_refusals_are_of_every_kind() -> None:
    reported = {rejection for rejection, _ in (*REJECTED, *SESSION_BOUND)}
    assert reported == {LISTEN, TEMPORARY_OBJECT, SQL_PREPARE, CURSOR_WITH_HOLD, *SESSION_LOCKS.values()}

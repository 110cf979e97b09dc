"""What statements do to their session: as drivers, frameworks and people write them."""

import pytest

from bough.gateway.wire.refusals import HOLDING, LISTENING, LOCKING, PREPARING, TEMPORARY, Refusal
from bough.gateway.wire.session_words import PLAIN, Look, look
from gateway.wire.conftest import Session
from gateway.wire.spoken import LASTING, LOCAL, REFUSED, SETTINGS, UNREMARKABLE

DIRTIES = Look(dirties=True)
PREPARES = Look(dirties=True, prepares=True)


def seen(text: str, alone: bool = True) -> Look:
    return look(text.encode(), alone=alone)


@pytest.mark.parametrize("text", UNREMARKABLE)
@pytest.mark.parametrize("alone", [True, False])
def test_nearly_everything_is_plain(text: str, alone: bool) -> None:
    assert seen(text, alone) is PLAIN


@pytest.mark.parametrize("text", SETTINGS)
@pytest.mark.parametrize("alone", [True, False])
def test_settings_are_touched(text: str, alone: bool) -> None:
    found = seen(text, alone)
    assert found == Look(touches_settings=True, custom_settings=found.custom_settings)


@pytest.mark.parametrize(("count", "text"), LOCAL)
def test_local_sets_are_counted(count: int, text: str) -> None:
    assert seen(text) == Look(local_sets=count)


@pytest.mark.parametrize(("refusal", "text"), REFUSED)
@pytest.mark.parametrize("alone", [True, False])
def test_what_never_works(refusal: Refusal, text: str, alone: bool) -> None:
    assert seen(text, alone) == Look(refusal)
    assert seen(f"begin; {text}; commit", alone) == Look(refusal)


@pytest.mark.parametrize(("refusal", "text"), LASTING)
def test_what_works_until_the_transaction_ends(refusal: Refusal, text: str) -> None:
    left = PREPARES if refusal is PREPARING else DIRTIES
    assert seen(text) == Look(refusal)
    assert seen(text + ";") == Look(refusal)
    assert seen(text, alone=False) == left
    assert seen(f"begin; {text}; commit") == left
    assert seen(f"{text}; select 1") == left


@pytest.mark.parametrize(
    "text",
    [
        "create temp table t (a int) on commit drop",
        "create temporary table if not exists t on commit drop as select 1",
        'CREATE TEMP TABLE "bulk" (LIKE items INCLUDING DEFAULTS) ON COMMIT DROP',
    ],
)
def test_what_drops_itself_is_let_through(text: str) -> None:
    assert seen(text) == seen(text, alone=False) == DIRTIES


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
    assert seen(text) == Look(spoils=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("DISCARD ALL", Look(touches_settings=True, forgets_all=True)),
        ("deallocate all", Look(forgets_all=True)),
        ("DEALLOCATE PREPARE ALL;", Look(forgets_all=True)),
        ("select 1; deallocate all", Look(forgets_all=True)),
        ("CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; UNLISTEN *; "
         "SELECT pg_advisory_unlock_all(); DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES",
         Look(touches_settings=True, forgets_all=True)),
        ("set local a.b = 1; set work_mem = 64", Look(touches_settings=True, local_sets=1)),
        ("set local a.b = 1; create temp table t ()", Look(dirties=True, local_sets=1)),
        ("select set_config('work_mem', '64', false), dblink_connect('x')", Look(touches_settings=True, spoils=True)),
        ("prepare a as select 1; load 'x'", Look(dirties=True, prepares=True, spoils=True)),
        ("deallocate a; select 1", Look(deallocates=(b"a",))),
    ],
)  # fmt: skip
def test_one_text_may_do_several_things(text: str, found: Look) -> None:
    assert seen(text) == found


def test_one_statement_may_do_several_things() -> None:
    text = "create temp table t as select set_config('work_mem', '64', false)"
    assert seen(text, alone=False) == Look(touches_settings=True, dirties=True)


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
def test_statements_are_forgotten_by_the_name_postgres_knows(session: Session, text: str, name: bytes) -> None:
    assert seen(text) == Look(deallocates=(name,))
    session.prepares(name)
    assert session.runs(text.encode()) == ["DEALLOCATE"]


@pytest.mark.parametrize(
    "text", ["deallocate", "deallocate 'a'", "deallocate a, b", 'deallocate U&"a"', "deallocate 1"]
)
def test_what_names_no_statement(text: str) -> None:
    assert seen(text) is PLAIN


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
def test_settings_of_ones_own_are_told_by_name(session: Session, text: str, names: list[bytes]) -> None:
    """Postgres does not list them, so whoever wants to carry them along must know their names."""
    assert [*seen(text).custom_settings] == names
    session.runs(text.encode())
    assert session.answers(b"select 1 from pg_settings where name ~ '[.](tenant|c|x|y)'") == []
    assert all(session.answers(b"select current_setting('%s')" % name) == [(b"x",)] for name in names)


def test_reset_names_them_too() -> None:
    assert seen("reset app.tenant").custom_settings == (b"app.tenant",)


# A transaction's own settings are listed for the session as well, though they end with it.
KEPT = b"""
    select name, setting from pg_settings where source = 'session' and name !~ '^transaction_'
    union all values ('role', current_user::text)
    union all select name, coalesce(current_setting(name, true), '') from unnest('{a.b, a.c, custom.x}'::text[]) name
"""


@pytest.mark.parametrize("text", [*SETTINGS, *UNREMARKABLE, *(text for _, text in LOCAL)])
def test_settings_that_postgres_keeps_were_seen_coming(session: Session, text: str) -> None:
    """Not the other way round: to set what is set already is to touch it, too."""
    before = session.answers(KEPT)
    tags = session.runs(text.encode())
    session.runs(b"rollback")
    found = seen(text)
    hidden = text.startswith("DO ")
    assert found.touches_settings or hidden or session.answers(KEPT) == before
    assert found.touches_settings or tags.count("SET") <= found.local_sets


def test_refusals_are_of_every_kind() -> None:
    told = {refusal for refusal, _ in (*REFUSED, *LASTING)}
    assert told == {LISTENING, TEMPORARY, PREPARING, HOLDING, *LOCKING.values()}

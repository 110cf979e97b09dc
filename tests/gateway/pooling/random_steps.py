"""The steps that clients may take in random order."""

from hypothesis import strategies as st

from support.protocol_messages import (
    SYNC,
    bind,
    bind_and_execute,
    close,
    describe,
    execute,
    extended_query,
    parse,
    query,
)

CLIENTS = 4
CLIENT_NUMBERS = st.integers(0, CLIENTS - 1)
RARELY = st.sampled_from([False, False, False, True])
NAMES = st.sampled_from(["s", "t", "s", "t", ""])
TRANSACTIONS = [
    "begin", "begin", "begin", "commit", "commit", "rollback", "savepoint a", "savepoint b", "rollback to a",
    "rollback to b", "release a", "commit and chain", "begin isolation level repeatable read", "commit; begin",
]  # fmt: skip
CHAINS = ["commit and chain", "commit; begin"]
STATEMENT_TEXTS = [
    "select 'one text'",
    "select 'another text', 2",
    "select name from place",
    "select nullif(current_setting('app.tenant', true), ''), current_setting('timezone'), current_user::text = $1",
    "select count(*), coalesce(sum(id), 0) from tokens",
    "insert into tokens values ($1::integer)",
    "select * from t",
    "begin",
    "rollback",
]
SETTINGS = [
    "set application_name = 'mine'", "set application_name = 'its'", "reset application_name",
    "set search_path = a, public", "set search_path = b", "reset search_path", "set local search_path = b",
    "set statement_timeout = '1h'", "set statement_timeout to default", "set local statement_timeout = '2h'",
    "set app.tenant = 'one'", "set app.tenant = 'other'", "reset app.tenant", "set local app.tenant = 'local'",
    "select set_config('app.tenant', 'by function', false)", "select set_config('timezone', 'Asia/Tokyo', true)",
    "set timezone = 'Europe/Rome'", "set timezone = 'Asia/Tokyo'", "reset timezone", "set role {worker}", "reset role",
    "set role none", "reset all", "set datestyle = 'German'",
]  # fmt: skip
ERRORS = ["select 1/0", "selec", "select * from nowhere", "execute nothing", "fetch nothing", "set timezone = 'Mars'"]
TEMPORARY = ["insert into t values (1)", "select * from t", "drop table t"]
SHOW_APPLICATION_NAME = "show application_name"
STATE_QUERY = """select current_setting('search_path'), current_setting('timezone'),
                 current_setting('statement_timeout'), nullif(current_setting('app.tenant', true), ''),
                 current_setting('datestyle'), current_user = session_user"""
TRANSACTION_STATEMENTS = [
    "insert", "insert", "make", "make", "select * from t", "set app.tenant = 'one'", "set role none", "savepoint a",
    "rollback to a", "select 1/0", "set timezone = 'Asia/Tokyo'",
]  # fmt: skip
HIDDEN_SETTING_QUERY = "select nullif(current_setting('app.hidden', true), '')"
REJECTED_QUERY = query("do $$ begin raise exception using errcode = '0A000', message = ''; end $$")
PIECES = {
    "Sync": SYNC,
    **{f"Query {sql}": query(sql) for sql in ("begin", "commit", "rollback", "select 1/0", "reset all")},
    **{f"batch {sql}": extended_query(sql) for sql in ("begin", "commit", "rollback", "select 1/0", "table tokens")},
    "look": extended_query(STATE_QUERY),
    **{f"batch {sql}": extended_query(sql) for sql in ("set timezone = 'Asia/Tokyo'", "set local app.tenant = 'x'")},
    **{f"Parse {name}: {sql}": parse(name, sql) for name in ("s", "t", "") for sql in STATEMENT_TEXTS[:3]},
    **{f"{name} of {kind}": phrase for kind in ("s", "t", "") for name, phrase in (
        ("Close", close("S", kind)), ("use", bind_and_execute(kind)),
        ("Describe", describe("S", kind)), ("portal", bind("p", kind)),
    )},
    "Execute": execute("p", 1),
}  # fmt: skip
BATCHES = st.lists(st.sampled_from(list(PIECES)), min_size=2, max_size=8)


def insert_both_halves(number: int, is_batch: bool) -> bytes:
    """Two inserts that are done together or not at all."""
    one, other = (f"insert into public.maybes values ({number}, {half})" for half in (1, 2))
    return extended_query(one) + extended_query(other) + SYNC if is_batch else query(f"{one}; {other}")

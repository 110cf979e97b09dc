"""Session state follows its client, and no client sees the state of another."""

import pytest

from support.pooler import Pooler
from support.protocol_client import ProtocolClient

STATE = """select current_setting('search_path'), current_setting('timezone'), current_setting('statement_timeout'),
                  nullif(current_setting('app.tenant', true), ''), current_user, current_setting('application_name'),
                  current_setting('default_transaction_isolation')"""


async def set_all(client: ProtocolClient, name: str, role: str) -> None:
    await client.execute(
        f"set search_path = {name}, public",
        "set timezone = 'Asia/Tokyo'",
        f"set statement_timeout = '{len(name)}min'",
        f"set app.tenant = '{name}'",
        f"set role {role}",
        f"set application_name = '{name}'",
        "set session characteristics as transaction isolation level repeatable read",
    )


async def test_settings_follow_their_client_and_nobody_else(one_server_connection: Pooler) -> None:
    one, other, bare = await one_server_connection.connect_many(3)
    role = f"{one_server_connection.database}_worker"
    await bare.execute(f"create role {role}")
    before = (await bare.query(STATE)).rows
    await set_all(one, "one", role)
    assert (await bare.query(STATE)).rows == before
    await set_all(other, "other", role)
    for _ in range(3):
        for client, name in ((one, "one"), (other, "other")):
            expected = (f"{name}, public", "Asia/Tokyo", f"{len(name)}min", name, role, name, "repeatable read")
            assert (await client.query(STATE)).rows == [expected]
        assert (await bare.query(STATE)).rows == before
    await one.execute("reset all", "reset role")
    assert (await one.query(STATE)).rows == before


@pytest.mark.parametrize("by", ["simple", "extended"])
@pytest.mark.parametrize(
    "statements, kept",
    [
        (["set app.tenant = 'a'"], "a"),
        (["set app.tenant to 'a'", "set session app.tenant = 'b'"], "b"),
        (["select set_config('app.tenant', 'a', false)"], "a"),
        (["select set_config('app.tenant', 'a', true)"], None),
        (["set local app.tenant = 'a'"], None),
        (["begin", "set app.tenant = 'a'", "commit"], "a"),
        (["begin", "set app.tenant = 'a'", "rollback"], None),
        (["begin", "set local app.tenant = 'a'", "commit"], None),
        (["set app.tenant = 'a'", "begin", "set app.tenant = 'b'", "select 1/0", "commit"], "a"),
        (["begin", "set app.tenant = 'a'", "savepoint s", "set app.tenant = 'b'", "rollback to s", "commit"], "a"),
        (["begin", "savepoint s", "set app.tenant = 'b'", "release s", "commit"], "b"),
        (["set app.tenant = 'a'", "begin", "set local app.tenant = 'b'", "commit"], "a"),
        (["set app.tenant = 'a'", "reset app.tenant"], None),
        (["set app.tenant = 'a'", "set app.tenant to default"], None),
        (["set app.tenant = 'a'", "begin", "reset all", "rollback"], "a"),
        (["set app.tenant = 'a'", "discard all"], None),
        (["set app.tenant = 'a'", "set app.tenant = 'it''s; \"b\"\\'"], 'it\'s; "b"\\'),
    ],
)
async def test_what_is_set_is_kept_as_postgres_would(
    three_clients: list[ProtocolClient], by: str, statements: list[str], kept: str | None
) -> None:
    client, other, _ = three_clients
    for sql in statements:
        await (client.query(sql) if by == "simple" else client.extended_query(sql))
    setting_query = "select nullif(current_setting('app.tenant', true), '')"
    assert await other.fetch_value(setting_query) is None
    await other.execute("set app.tenant = 'of another'")
    assert await client.fetch_value(setting_query) == kept
    assert await other.fetch_value(setting_query) == "of another"
    assert await client.fetch_value(setting_query) == kept


@pytest.mark.parametrize(
    "name, value",
    [
        ("search_path", 'a, "B c", public'),
        ("search_path", '""'),
        ("datestyle", "German, DMY"),
        ("timezone", "<+03>-03"),
        ("intervalstyle", "sql_standard"),
        ("extra_float_digits", "0"),
        ("work_mem", "7MB"),
        ("statement_timeout", "61s"),
        ("bytea_output", "escape"),
        ("row_security", "off"),
        ("client_min_messages", "error"),
        ("session_replication_role", "replica"),
        ("default_transaction_read_only", "on"),
        ("lc_messages", "C"),
        ("client_encoding", "LATIN1"),
        ("temp_tablespaces", ""),
        ("random_page_cost", "1.25"),
    ],
)
async def test_a_setting_of_any_kind_follows(three_clients: list[ProtocolClient], name: str, value: str) -> None:
    client, other, _ = three_clients
    before = await other.fetch_value(f"show {name}")
    await client.execute(f"select set_config('{name}', '{value}', false)")
    expected = await client.fetch_value(f"show {name}")
    assert await other.fetch_value(f"show {name}") == before
    assert await client.fetch_value(f"show {name}") == expected
    assert await other.fetch_value(f"show {name}") == before


async def test_changes_are_told_to_their_client_only(three_clients: list[ProtocolClient]) -> None:
    client, other, _ = three_clients
    await client.execute("set timezone = 'Asia/Tokyo'", "set application_name = 'mine'")
    assert (client.parameters["TimeZone"], client.parameters["application_name"]) == ("Asia/Tokyo", "mine")
    before = dict(other.parameters)
    await other.execute("select 1")
    await client.execute("select 1")
    assert other.parameters == before
    assert (client.parameters["TimeZone"], client.parameters["application_name"]) == ("Asia/Tokyo", "mine")


async def test_clients_in_other_roles_do_not_lend_them(one_server_connection: Pooler) -> None:
    """A role set in a failed transaction is not kept; a role that it reset is restored."""
    client, other = await one_server_connection.connect_many(2)
    role = f"{one_server_connection.database}_guest"
    await client.execute(f"create role {role}")
    setting_query = "select current_user = session_user"
    for statements, kept in (
        ([f"set role {role}"], "f"),
        (["begin", "reset role", "rollback"], "f"),
        (["begin", "set local role none", "commit"], "f"),
        (["set role none"], "t"),
        (["begin", f"set role {role}", "select 1/0", "rollback"], "t"),
        ([f"set session authorization {role}"], None),
    ):
        for sql in statements:
            await client.query(sql)
        assert await other.fetch_value(setting_query) == "t"
        if kept is not None:
            assert await client.fetch_value(setting_query) == kept
    assert await other.fetch_value("select session_user") == "store"

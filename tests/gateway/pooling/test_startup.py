"""Startup parameters take effect on the pooled host, and Postgres rejects invalid ones at once."""

import pytest

from support.gateway import ENDPOINT, HOST
from support.pooler import Pooler
from support.protocol_client import POOLED_HOST, ProtocolClient, connect_pooled
from support.protocol_messages import SYNC, extended_query


async def test_the_greeting_is_that_of_the_direct_host(one_server_connection: Pooler) -> None:
    for startup in ({}, {"application_name": "one"}, {"client_encoding": "latin1", "TimeZone": "Asia/Tokyo"}):
        direct = (await one_server_connection.connect_directly(**startup)).parameters
        assert direct["application_name"] == startup.get("application_name", "")
        for _ in range(2):
            assert (await one_server_connection.connect(**startup)).parameters == direct


@pytest.mark.parametrize("minor, length", [(0, 8), (2, 36)])
async def test_keys_are_as_long_as_the_protocol_says(one_server_connection: Pooler, minor: int, length: int) -> None:
    one = await connect_pooled(one_server_connection.gateway, minor=minor)
    other = await connect_pooled(one_server_connection.gateway, minor=minor)
    assert len(one.key) == len(other.key) == length
    assert one.key != other.key


async def test_each_has_its_own_application_name_though_they_share_a_member(one_server_connection: Pooler) -> None:
    clients = [await one_server_connection.connect(application_name=f"app {number}") for number in range(3)]
    for _ in range(2):
        for number, client in enumerate(clients):
            assert await client.fetch_value("show application_name") == f"app {number}"
            name_query = "select application_name from pg_stat_activity where pid = pg_backend_pid()"
            assert await client.fetch_value(name_query) == f"app {number}"
    assert len(await one_server_connection.list_server_pids()) == 1
    await clients[0].execute("set application_name = 'another'")
    await clients[1].execute("reset application_name")
    assert await clients[0].fetch_value("show application_name") == "another"
    assert await clients[1].fetch_value("show application_name") == "app 1"
    await clients[0].execute("reset application_name")
    assert await clients[2].fetch_value("show application_name") == "app 2"
    assert await clients[0].fetch_value("show application_name") == "app 0"
    await clients[0].execute("set application_name = 'another'", "discard all")
    assert await clients[0].fetch_value("show application_name") == "app 0"


@pytest.mark.parametrize(
    "sql", ["reset application_name", "set application_name to default", "reset all", "discard all"]
)
async def test_a_name_that_is_reset_is_the_clients_own_again(one_server_connection: Pooler, sql: str) -> None:
    """Not the one of the client that the server connection was opened for."""
    opener, client = (
        await one_server_connection.connect(application_name="opener"),
        await one_server_connection.connect(application_name="own"),
    )
    await opener.execute("select 1")
    for _ in range(2):
        await client.execute("set application_name = 'another'", sql)
        assert await client.fetch_value("show application_name") == "own"
        assert client.parameters["application_name"] == "own"
        await opener.execute("select 1")
        assert await client.fetch_value("show application_name") == "own"


STARTUPS = [
    {"options": "-c search_path=one"},
    {"options": "-c search_path=other,\\ two -c statement_timeout=7s"},
    {"options": "--work_mem=5MB", "DateStyle": "German"},
    {"TimeZone": "Asia/Tokyo", "extra_float_digits": "2", "client_encoding": "LATIN1"},
    {"options": f"endpoint={ENDPOINT}-pooler -c app.tenant=of_options"},
    {},
]
STATE = """select current_setting('search_path'), current_setting('statement_timeout'), current_setting('work_mem'),
                  current_setting('DateStyle'), current_setting('TimeZone'), current_setting('extra_float_digits'),
                  current_setting('client_encoding'), nullif(current_setting('app.tenant', true), '')"""


async def test_parameters_of_the_startup_hold_for_each_and_reset_goes_back_to_them(
    one_server_connection: Pooler,
) -> None:
    """They differ, so these clients never share a server connection; with only one, each opens it again."""
    expected = [
        (await (await one_server_connection.connect_directly(**startup)).query(STATE)).rows for startup in STARTUPS
    ]
    clients = [await one_server_connection.connect(**startup) for startup in STARTUPS]
    for _ in range(2):
        assert [(await client.query(STATE)).rows for client in clients] == expected
        for client in clients:
            await client.execute("set search_path = elsewhere", "set timezone = 'Europe/Rome'", "set app.tenant = 'x'")
        for client in clients:
            assert await client.fetch_value("show search_path") == "elsewhere"
            assert await client.fetch_value("show timezone") == "Europe/Rome"
        for client, way in zip(clients, ["reset all", "discard all"] * 3, strict=True):
            await client.execute(way)


async def test_bad_parameters_get_postgres_own_words(one_server_connection: Pooler) -> None:
    served = await one_server_connection.connect()
    for startup in (
        {"work_mem": "much"},
        {"no_such_thing": "1"},
        {"options": "-c nonsense=1"},
        {"options": "-Z"},
        {"client_encoding": "morse"},
        {"database": "nowhere"},
        {"user": "nobody_at_all"},
        {"shared_buffers": "1GB"},
    ):
        replies = []
        for host in (HOST, POOLED_HOST):
            connection = ProtocolClient(await one_server_connection.gateway.open_wire_client())
            await connection.wire.start_tls(host=host, alpn="postgresql")
            connection.wire.send_startup(0, **{"database": one_server_connection.database, **startup})
            await connection.wire.authenticate()
            replies.append(await connection.read_error())
        assert replies[0] == replies[1], startup
        assert replies[0].severity == "FATAL"
    assert await served.fetch_value("select 1") == "1"


async def test_a_database_that_is_not_there_is_said_so(one_server_connection: Pooler) -> None:
    error = await one_server_connection.expect_login_error(database="nowhere")
    assert (error.sqlstate, error.message) == ("3D000", 'database "nowhere" does not exist')


@pytest.mark.parametrize("value", ["database", "true", "1"])
async def test_replication_is_refused_with_the_way_out(one_server_connection: Pooler, value: str) -> None:
    error = await one_server_connection.expect_login_error(replication=value)
    assert error.sqlstate == "0A000"
    reported = f"{error.message} {error.detail} {error.hint}"
    assert "direct host" in reported


async def test_replication_off_is_nothing_special(one_server_connection: Pooler) -> None:
    assert await (await one_server_connection.connect(replication="off")).fetch_value("select 1") == "1"


async def test_other_roles_and_databases_are_other_pools(one_server_connection: Pooler) -> None:
    role = f"{one_server_connection.database}_app"
    owner = await one_server_connection.connect()
    await owner.execute(f"create role {role} login")
    app = await one_server_connection.connect(user=role)
    for _ in range(2):
        assert await app.fetch_value("select session_user") == role
        assert await owner.fetch_value("select session_user") == "store"
    assert (await app.query("create role another")).sqlstate == "42501"


async def test_an_encoding_that_the_client_chose_is_that_of_its_words(one_server_connection: Pooler) -> None:
    latin, plain = await one_server_connection.connect(client_encoding="LATIN1"), await one_server_connection.connect()
    await plain.execute("create table words (word text)")
    sent = extended_query("insert into words values ($1)", "grün").replace("grün".encode(), "grün ".encode("latin-1"))
    assert not (await latin.request(sent, SYNC)).errors
    assert await plain.fetch_value("select word from words") == "grün "

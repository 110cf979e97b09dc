"""What a client says when it enters the pooled host is kept, and what Postgres would refuse is refused then."""

import pytest

from gateway.doorway import ENDPOINT, HOST
from gateway.pooling.phrases import SYNC, ask
from gateway.pooling.pooler import Pooler
from gateway.pooling.speaking import POOLED, Speaker, pooled


async def test_the_greeting_is_that_of_the_direct_host(one_member: Pooler) -> None:
    for startup in ({}, {"application_name": "one"}, {"client_encoding": "latin1", "TimeZone": "Asia/Tokyo"}):
        direct = (await one_member.direct(**startup)).parameters
        assert direct["application_name"] == startup.get("application_name", "")
        for _ in range(2):
            assert (await one_member.client(**startup)).parameters == direct


@pytest.mark.parametrize("minor, length", [(0, 8), (2, 36)])
async def test_keys_are_as_long_as_the_protocol_says(one_member: Pooler, minor: int, length: int) -> None:
    one = await pooled(one_member.doorway, minor=minor)
    other = await pooled(one_member.doorway, minor=minor)
    assert len(one.key) == len(other.key) == length
    assert one.key != other.key


async def test_each_has_its_own_application_name_though_they_share_a_member(one_member: Pooler) -> None:
    clients = [await one_member.client(application_name=f"app {number}") for number in range(3)]
    for _ in range(2):
        for number, client in enumerate(clients):
            assert await client.value("show application_name") == f"app {number}"
            asked = "select application_name from pg_stat_activity where pid = pg_backend_pid()"
            assert await client.value(asked) == f"app {number}"
    assert len(await one_member.members()) == 1
    await clients[0].does("set application_name = 'another'")
    await clients[1].does("reset application_name")
    assert await clients[0].value("show application_name") == "another"
    assert await clients[1].value("show application_name") == "app 1"
    await clients[0].does("reset application_name")
    assert await clients[2].value("show application_name") == "app 2"
    assert await clients[0].value("show application_name") == "app 0"
    await clients[0].does("set application_name = 'another'", "discard all")
    assert await clients[0].value("show application_name") == "app 0"


@pytest.mark.parametrize(
    "words", ["reset application_name", "set application_name to default", "reset all", "discard all"]
)
async def test_a_name_that_is_reset_is_the_clients_own_again(one_member: Pooler, words: str) -> None:
    """Not that of the client for which the member was opened."""
    opener, client = await one_member.client(application_name="opener"), await one_member.client(application_name="own")
    await opener.does("select 1")
    for _ in range(2):
        await client.does("set application_name = 'another'", words)
        assert await client.value("show application_name") == "own"
        assert client.parameters["application_name"] == "own"
        await opener.does("select 1")
        assert await client.value("show application_name") == "own"


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


async def test_parameters_of_the_startup_hold_for_each_and_reset_goes_back_to_them(one_member: Pooler) -> None:
    """They differ, so these clients never share a member; with only one at a time it is opened anew for each."""
    expected = [(await (await one_member.direct(**startup)).query(STATE)).rows for startup in STARTUPS]
    clients = [await one_member.client(**startup) for startup in STARTUPS]
    for _ in range(2):
        assert [(await client.query(STATE)).rows for client in clients] == expected
        for client in clients:
            await client.does("set search_path = elsewhere", "set timezone = 'Europe/Rome'", "set app.tenant = 'x'")
        for client in clients:
            assert await client.value("show search_path") == "elsewhere"
            assert await client.value("show timezone") == "Europe/Rome"
        for client, way in zip(clients, ["reset all", "discard all"] * 3, strict=True):
            await client.does(way)


async def test_bad_parameters_get_postgres_own_words(one_member: Pooler) -> None:
    served = await one_member.client()
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
        answers = []
        for host in (HOST, POOLED):
            speaker = Speaker(await one_member.doorway.wire())
            await speaker.wire.encrypt(host=host, alpn="postgresql")
            speaker.wire.start(0, **{"database": one_member.database, **startup})
            await speaker.wire.log_in()
            answers.append(await speaker.trouble())
        assert answers[0] == answers[1], startup
        assert answers[0].severity == "FATAL"
    assert await served.value("select 1") == "1"


async def test_a_database_that_is_not_there_is_said_so(one_member: Pooler) -> None:
    trouble = await one_member.refused(database="nowhere")
    assert (trouble.code, trouble.message) == ("3D000", 'database "nowhere" does not exist')


@pytest.mark.parametrize("value", ["database", "true", "1"])
async def test_replication_is_refused_with_the_way_out(one_member: Pooler, value: str) -> None:
    trouble = await one_member.refused(replication=value)
    assert trouble.code == "0A000"
    told = f"{trouble.message} {trouble.detail} {trouble.hint}"
    assert "direct host" in told


async def test_replication_off_is_nothing_special(one_member: Pooler) -> None:
    assert await (await one_member.client(replication="off")).value("select 1") == "1"


async def test_other_roles_and_databases_are_other_pools(one_member: Pooler) -> None:
    role = f"{one_member.database}_app"
    owner = await one_member.client()
    await owner.does(f"create role {role} login")
    app = await one_member.client(user=role)
    for _ in range(2):
        assert await app.value("select session_user") == role
        assert await owner.value("select session_user") == "store"
    assert (await app.query("create role another")).code == "42501"


async def test_an_encoding_that_the_client_chose_is_that_of_its_words(one_member: Pooler) -> None:
    latin, plain = await one_member.client(client_encoding="LATIN1"), await one_member.client()
    await plain.does("create table words (word text)")
    sent = ask("insert into words values ($1)", "grün").replace("grün".encode(), "grün ".encode("latin-1"))
    assert not (await latin.ask(sent, SYNC)).troubles
    assert await plain.value("select word from words") == "grün "

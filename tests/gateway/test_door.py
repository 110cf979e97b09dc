"""The front door, byte by byte and with a real client: encryption, versions, names, and strangers."""

import asyncio
import ssl
from contextlib import suppress

import psycopg
import pytest

from bough.gateway import connection
from bough.gateway.wire import messages
from gateway.doorway import DATABASE, ENDPOINT, GSS_REQUEST, HOST, PASSWORD, ROLE, SSL_REQUEST, Doorway

CONNINFO = f"hostaddr=127.0.0.1 port={{port}} user={ROLE} dbname={DATABASE}"
BY_NAME = f"host={{host}} {CONNINFO}"
BY_ADDRESS = f"host=127.0.0.1 {CONNINFO} sslmode=require"


async def test_a_client_comes_in_by_the_name_of_the_host(doorway: Doorway) -> None:
    assert await doorway.libpq(f"{BY_NAME} sslmode=require channel_binding=require", "select 6 * 7") == "42"


@pytest.mark.parametrize("version", ["3.0", "3.2", "latest"])
async def test_a_client_with_direct_tls_comes_in(doorway: Doorway, version: str) -> None:
    told = f"sslmode=require sslnegotiation=direct max_protocol_version={version} channel_binding=require"
    assert await doorway.libpq(f"{BY_NAME} {told}") == "1"


async def test_verify_full_works_with_the_ca_file(doorway: Doorway) -> None:
    told = f"sslmode=verify-full sslrootcert={doorway.ca_file}"
    assert await doorway.libpq(f"{BY_NAME} {told}") == "1"
    with pytest.raises(psycopg.OperationalError, match="does not match host name"):
        await doorway.libpq(f"host=elsewhere.test {CONNINFO} {told}")


async def test_the_pooled_host_leads_to_the_same_compute(doorway: Doorway) -> None:
    pooled = HOST.replace(ENDPOINT, f"{ENDPOINT}-pooler")
    assert await doorway.libpq(f"host={pooled} {CONNINFO} sslmode=require") == "1"
    assert ("wake", ENDPOINT) in doorway.plane.asked


async def test_without_a_name_the_options_say_which_endpoint(doorway: Doorway) -> None:
    conninfo = f"{BY_ADDRESS} options='endpoint={ENDPOINT} -c work_mem=5MB'"
    assert await doorway.libpq(conninfo, "show work_mem") == "5MB"


@pytest.mark.parametrize("sign", [";", "$"])
async def test_without_a_name_and_options_the_password_says_it(doorway: Doorway, sign: str) -> None:
    password = f"endpoint={ENDPOINT}{sign}{PASSWORD}"
    assert await doorway.libpq(BY_ADDRESS, password=password) == "1"
    with pytest.raises(psycopg.OperationalError, match='password authentication failed for user "store"'):
        await doorway.libpq(BY_ADDRESS, password=f"{password}!")


async def test_a_client_that_names_no_endpoint_is_told_how(doorway: Doorway) -> None:
    with pytest.raises(psycopg.OperationalError, match="options=endpoint%3Dep-"):
        await doorway.libpq(BY_ADDRESS)


async def test_plaintext_is_refused_with_the_way_out(doorway: Doorway) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"(?s)encrypted connections only.*sslmode=require"):
        await doorway.libpq(f"{BY_NAME} sslmode=disable")


async def test_the_local_socket_takes_plaintext_and_scram(doorway: Doorway) -> None:
    local = f"host={{folder}} port=5432 user={ROLE} dbname={DATABASE} options=endpoint={ENDPOINT}"
    assert await doorway.libpq(local) == "1"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await doorway.libpq(local, password="wrong")


async def test_gss_is_refused_politely_and_tls_follows(doorway: Doorway) -> None:
    wire = await doorway.wire()
    wire.writer.write(GSS_REQUEST)
    assert await wire.reader.readexactly(1) == b"N"
    assert await wire.ask_for_tls() == b"S"
    await wire.encrypt()
    wire.start()
    await wire.log_in()
    assert (await wire.until(messages.READY))[-1].body == b"I"
    wire.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_direct_tls_needs_the_protocols_name(doorway: Doorway, version: ssl.TLSVersion) -> None:
    wire = await doorway.wire()
    await wire.encrypt(alpn="postgresql", maximum=version)
    wire.start()
    await wire.log_in(binds=True)
    assert (await wire.until(messages.READY))[-1].body == b"I"
    wire.close()
    for other in (None, "http/1.1"):
        wire = await doorway.wire()
        await wire.encrypt(alpn=other)
        wire.start()
        assert "ALPN" in (await wire.trouble()).message


@pytest.mark.parametrize(
    "minor, extension, agreed, key_length",
    [(0, None, None, 4), (2, None, None, 32), (0, "_pq_.x", 0, 4), (9999, None, 2, 32), (2, "_pq_.x", 2, 32)],
)
async def test_versions_are_negotiated(
    doorway: Doorway, minor: int, extension: str | None, agreed: int | None, key_length: int
) -> None:
    wire = await doorway.wire()
    await wire.encrypt(alpn="postgresql")
    wire.start(minor, **({extension: "on"} if extension else {}))
    if agreed is not None:
        told = await wire.message()
        names = f"{extension}\0".encode() if extension else b""
        count = 1 if extension else 0
        assert told == (messages.VERSION, (3 << 16 | agreed).to_bytes(4) + count.to_bytes(4) + names)
    await wire.log_in()
    heard = await wire.until(messages.READY)
    key = next(message.body for message in heard if message.type == messages.BACKEND_KEY)
    assert len(key) - 4 == key_length
    wire.close()


async def test_a_protocol_we_do_not_speak_is_named(doorway: Doorway) -> None:
    wire = await doorway.wire()
    wire.writer.write((8).to_bytes(4) + (2 << 16).to_bytes(4))
    trouble = await wire.trouble()
    assert (trouble.code, "3.0" in trouble.message) == ("0A000", True)


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"\xff" * 100_000, b"\x16\x03\x01" + b"\0" * 500],
    ids=["HTTP", "zeros", "a flood", "TLS, almost"],
)
async def test_garbage_ends_in_a_close_and_harms_nobody(doorway: Doorway, data: bytes) -> None:
    wire = await doorway.wire()
    wire.writer.write(data)
    wire.writer.write_eof()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        while True:
            await wire.reader.readexactly(1)
    assert await doorway.libpq(f"{BY_NAME} sslmode=require") == "1"


async def test_bytes_pushed_in_before_tls_are_not_taken_for_the_clients(doorway: Doorway) -> None:
    """Somebody in between could have put them there."""
    wire = await doorway.wire()
    wire.writer.write(SSL_REQUEST)
    wire.start()
    assert await wire.reader.readexactly(1) == b"S"
    with suppress(ConnectionError):  # the handshake fails, and nothing is answered to them
        assert messages.AUTHENTICATION not in await wire.reader.read()


async def test_who_does_not_log_in_is_let_go(doorway: Doorway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOGIN_SECONDS", 0.2)
    wire = await doorway.wire()
    await wire.encrypt(alpn="postgresql")
    assert (await wire.trouble()).message == "the client took too long to log in"
    silent = await doorway.wire()
    assert (await silent.trouble()).message == "the client took too long to log in"


async def test_a_new_certificate_is_used_at_once_and_drops_nobody(doorway: Doorway) -> None:
    old = await doorway.wire()
    await old.encrypt(alpn="postgresql")
    old.start()
    await old.log_in(binds=True)
    await old.until(messages.READY)
    doorway.new_certificate()
    assert doorway.rooms[0].certificates.refresh()
    assert not doorway.rooms[0].certificates.refresh()
    fresh = await doorway.wire()
    await fresh.encrypt(alpn="postgresql")
    assert fresh.binding() != old.binding()
    fresh.start()
    await fresh.log_in(binds=True)
    await fresh.until(messages.READY)
    old.say(b"Q", b"select 1\0")
    assert (await old.until(messages.READY))[-1].body == b"I"
    old.close()
    fresh.close()

"""The handshake, byte by byte and with a real client: encryption, protocol versions and names."""

import asyncio
import ssl
from contextlib import suppress

import psycopg
import pytest

from bough.gateway import connection
from bough.gateway.wire import messages
from support.gateway import DATABASE, ENDPOINT, GSS_REQUEST, HOST, PASSWORD, ROLE, SSL_REQUEST, InProcessGateway

CONNINFO = f"hostaddr=127.0.0.1 port={{port}} user={ROLE} dbname={DATABASE}"
BY_NAME = f"host={{host}} {CONNINFO}"
BY_ADDRESS = f"host=127.0.0.1 {CONNINFO} sslmode=require"


async def test_a_client_comes_in_by_the_name_of_the_host(gateway: InProcessGateway) -> None:
    assert await gateway.query_with_libpq(f"{BY_NAME} sslmode=require channel_binding=require", "select 6 * 7") == "42"


@pytest.mark.parametrize("version", ["3.0", "3.2", "latest"])
async def test_a_client_with_direct_tls_comes_in(gateway: InProcessGateway, version: str) -> None:
    options = f"sslmode=require sslnegotiation=direct max_protocol_version={version} channel_binding=require"
    assert await gateway.query_with_libpq(f"{BY_NAME} {options}") == "1"


async def test_verify_full_works_with_the_ca_file(gateway: InProcessGateway) -> None:
    options = f"sslmode=verify-full sslrootcert={gateway.ca_file}"
    assert await gateway.query_with_libpq(f"{BY_NAME} {options}") == "1"
    with pytest.raises(psycopg.OperationalError, match="does not match host name"):
        await gateway.query_with_libpq(f"host=elsewhere.test {CONNINFO} {options}")


async def test_the_pooled_host_leads_to_the_same_compute(gateway: InProcessGateway) -> None:
    pooled = HOST.replace(ENDPOINT, f"{ENDPOINT}-pooler")
    assert await gateway.query_with_libpq(f"host={pooled} {CONNINFO} sslmode=require") == "1"
    assert ("wake", ENDPOINT) in gateway.control_plane.calls


async def test_without_a_name_the_options_say_which_endpoint(gateway: InProcessGateway) -> None:
    conninfo = f"{BY_ADDRESS} options='endpoint={ENDPOINT} -c work_mem=5MB'"
    assert await gateway.query_with_libpq(conninfo, "show work_mem") == "5MB"


@pytest.mark.parametrize("sign", [";", "$"])
async def test_without_a_name_and_options_the_password_says_it(gateway: InProcessGateway, sign: str) -> None:
    password = f"endpoint={ENDPOINT}{sign}{PASSWORD}"
    assert await gateway.query_with_libpq(BY_ADDRESS, password=password) == "1"
    with pytest.raises(psycopg.OperationalError, match='password authentication failed for user "store"'):
        await gateway.query_with_libpq(BY_ADDRESS, password=f"{password}!")


async def test_a_client_that_names_no_endpoint_is_told_how(gateway: InProcessGateway) -> None:
    with pytest.raises(psycopg.OperationalError, match="options=endpoint%3Dep-"):
        await gateway.query_with_libpq(BY_ADDRESS)


async def test_plaintext_is_refused_with_the_way_out(gateway: InProcessGateway) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"(?s)encrypted connections only.*sslmode=require"):
        await gateway.query_with_libpq(f"{BY_NAME} sslmode=disable")


async def test_the_local_socket_takes_plaintext_and_scram(gateway: InProcessGateway) -> None:
    local = f"host={{folder}} port=5432 user={ROLE} dbname={DATABASE} options=endpoint={ENDPOINT}"
    assert await gateway.query_with_libpq(local) == "1"
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await gateway.query_with_libpq(local, password="wrong")


async def test_gss_is_refused_politely_and_tls_follows(gateway: InProcessGateway) -> None:
    wire = await gateway.open_wire_client()
    wire.writer.write(GSS_REQUEST)
    assert await wire.reader.readexactly(1) == b"N"
    assert await wire.request_tls() == b"S"
    await wire.start_tls()
    wire.send_startup()
    await wire.authenticate()
    assert (await wire.read_until(messages.READY_FOR_QUERY))[-1].body == b"I"
    wire.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_direct_tls_needs_the_protocols_name(gateway: InProcessGateway, version: ssl.TLSVersion) -> None:
    wire = await gateway.open_wire_client()
    await wire.start_tls(alpn="postgresql", maximum=version)
    wire.send_startup()
    await wire.authenticate(binds=True)
    assert (await wire.read_until(messages.READY_FOR_QUERY))[-1].body == b"I"
    wire.close()
    for other in (None, "http/1.1"):
        wire = await gateway.open_wire_client()
        await wire.start_tls(alpn=other)
        wire.send_startup()
        assert "ALPN" in (await wire.read_error()).message


@pytest.mark.parametrize(
    "minor, extension, agreed, key_length",
    [(0, None, None, 4), (2, None, None, 32), (0, "_pq_.x", 0, 4), (9999, None, 2, 32), (2, "_pq_.x", 2, 32)],
)
async def test_versions_are_negotiated(
    gateway: InProcessGateway, minor: int, extension: str | None, agreed: int | None, key_length: int
) -> None:
    wire = await gateway.open_wire_client()
    await wire.start_tls(alpn="postgresql")
    wire.send_startup(minor, **({extension: "on"} if extension else {}))
    if agreed is not None:
        negotiation = await wire.read_message()
        names = f"{extension}\0".encode() if extension else b""
        count = 1 if extension else 0
        assert negotiation == (
            messages.NEGOTIATE_PROTOCOL_VERSION,
            (3 << 16 | agreed).to_bytes(4) + count.to_bytes(4) + names,
        )
    await wire.authenticate()
    received = await wire.read_until(messages.READY_FOR_QUERY)
    key = next(message.body for message in received if message.type == messages.BACKEND_KEY_DATA)
    assert len(key) - 4 == key_length
    wire.close()


async def test_a_protocol_we_do_not_speak_is_named(gateway: InProcessGateway) -> None:
    wire = await gateway.open_wire_client()
    wire.writer.write((8).to_bytes(4) + (2 << 16).to_bytes(4))
    error = await wire.read_error()
    assert (error.sqlstate, "3.0" in error.message) == ("0A000", True)


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"\xff" * 100_000, b"\x16\x03\x01" + b"\0" * 500],
    ids=["HTTP", "zeros", "a flood", "TLS, almost"],
)
async def test_garbage_ends_in_a_close_and_harms_nobody(gateway: InProcessGateway, data: bytes) -> None:
    wire = await gateway.open_wire_client()
    wire.writer.write(data)
    wire.writer.write_eof()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        while True:
            await wire.reader.readexactly(1)
    assert await gateway.query_with_libpq(f"{BY_NAME} sslmode=require") == "1"


async def test_bytes_pushed_in_before_tls_are_not_taken_for_the_clients(gateway: InProcessGateway) -> None:
    """A man in the middle could have sent them."""
    wire = await gateway.open_wire_client()
    wire.writer.write(SSL_REQUEST)
    wire.send_startup()
    assert await wire.reader.readexactly(1) == b"S"
    with suppress(ConnectionError):  # the handshake fails without a reply
        assert messages.AUTHENTICATION not in await wire.reader.read()


async def test_who_does_not_log_in_is_let_go(gateway: InProcessGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOGIN_TIMEOUT_SECONDS", 0.2)
    wire = await gateway.open_wire_client()
    await wire.start_tls(alpn="postgresql")
    assert (await wire.read_error()).message == "the client took too long to log in"
    silent = await gateway.open_wire_client()
    assert (await silent.read_error()).message == "the client took too long to log in"


async def test_a_new_certificate_is_used_at_once_and_drops_nobody(gateway: InProcessGateway) -> None:
    old = await gateway.open_wire_client()
    await old.start_tls(alpn="postgresql")
    old.send_startup()
    await old.authenticate(binds=True)
    await old.read_until(messages.READY_FOR_QUERY)
    gateway.write_certificate()
    assert gateway.worker_services[0].certificates.reload_if_changed()
    assert not gateway.worker_services[0].certificates.reload_if_changed()
    fresh = await gateway.open_wire_client()
    await fresh.start_tls(alpn="postgresql")
    assert fresh.channel_binding() != old.channel_binding()
    fresh.send_startup()
    await fresh.authenticate(binds=True)
    await fresh.read_until(messages.READY_FOR_QUERY)
    old.send(b"Q", b"select 1\0")
    assert (await old.read_until(messages.READY_FOR_QUERY))[-1].body == b"I"
    old.close()
    fresh.close()

"""First packets, parsed as Postgres parses them."""

import pytest

from bough.gateway.wire import messages
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.startup import (
    CancelRequest,
    GssRequest,
    SslRequest,
    StartupMessage,
    parse_first_packet,
    parse_packet_length,
)
from gateway.wire import startup_packets


def parse_startup(packet: bytes) -> StartupMessage:
    found = parse_first_packet(packet)
    assert isinstance(found, StartupMessage)
    return found


def test_requests_for_encryption() -> None:
    assert parse_first_packet(startup_packets.SSL) == SslRequest()
    assert parse_first_packet(startup_packets.GSS) == GssRequest()


def test_cancels_with_keys_of_every_protocol() -> None:
    assert parse_first_packet(startup_packets.CANCEL) == CancelRequest(12345, b"\0\0\0\x07")
    for length in (1, 4, 32, 256):
        key = bytes(range(length % 256)) or b"\1" * 256
        assert parse_first_packet(messages.encode_cancel_request(2**32 - 1, key)) == CancelRequest(2**32 - 1, key)
    for length in (0, 257):
        with pytest.raises(ProtocolError):
            parse_first_packet(messages.encode_cancel_request(1, bytes(length)))


def test_what_clients_say() -> None:
    libpq = parse_startup(startup_packets.LIBPQ_15)
    assert (libpq.minor, libpq.extensions) == (0, ())
    assert libpq.parameters["options"] == "-c geqo=off"
    assert parse_startup(startup_packets.ASYNCPG).parameters == {
        "client_encoding": "'utf-8'",
        "user": "alice",
        "database": "shop",
    }
    assert parse_startup(startup_packets.REPLICATION).parameters["replication"] == "database"
    assert parse_startup(startup_packets.startup()).parameters == {}


def test_the_last_of_two_counts_and_a_value_may_be_empty() -> None:
    parameters = parse_startup(startup_packets.startup("user", "a", "user", "b", "database", "")).parameters
    assert parameters == {"user": "b", "database": ""}


def test_bytes_that_are_not_utf_8_reach_postgres_as_they_came() -> None:
    packet = startup_packets.startup("user", "a", "application_name", b"caf\xe9")
    assert messages.encode_startup(parse_startup(packet).parameters) == packet


@pytest.mark.parametrize(
    ("minor", "extensions", "agreed"),
    [
        (0, [], None),
        (1, [], None),
        (2, [], None),
        (3, [], 2),
        (9999, [], 2),
        (0, ["_pq_.a"], 0),
        (2, ["_pq_.a", "_pq_.b"], 2),
    ],
)
def test_versions_are_agreed_on(minor: int, extensions: list[str], agreed: int | None) -> None:
    """Never above the requested version: libpq 18 treats that as an error."""
    parameters = [word for name in extensions for word in (name, "on")]
    found = parse_startup(startup_packets.startup("user", "a", *parameters, minor=minor))
    assert found.parameters == {"user": "a"}
    assert found.needs_negotiation is (agreed is not None)
    if agreed is not None:
        reply = messages.encode_negotiate_protocol_version(found.extensions, minor=found.agreed_minor)
        names = b"".join(name.encode() + b"\0" for name in extensions)
        body = bytes([0, 3, 0, agreed]) + len(extensions).to_bytes(4, "big") + names
        assert reply == b"v" + (len(body) + 4).to_bytes(4, "big") + body


def test_grease_of_libpq() -> None:
    found = parse_startup(startup_packets.LIBPQ_18)
    assert found.needs_negotiation
    assert found.agreed_minor == 2
    assert found.extensions == ("_pq_.test_protocol_negotiation",)


@pytest.mark.parametrize(("code", "name"), [(0x20000, "2.0"), (0x40000, "4.0"), (0x10000, "1.0"), (0, "0.0")])
def test_other_protocols_are_refused_by_name(code: int, name: str) -> None:
    with pytest.raises(ProtocolError, match=f"protocol {name}") as caught:
        parse_first_packet(startup_packets.packet(code, b"user\0a\0\0"))
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\0\0\0",
        startup_packets.SSL[:-1],
        startup_packets.SSL + b"x",
        startup_packets.packet(80877103, b"x"),
        startup_packets.packet(80877104, b"x"),
        startup_packets.packet(80877105),
        startup_packets.packet(0x30000),
        startup_packets.startup("user", "a", end=b""),
        startup_packets.startup("user", "a", end=b"\0\0"),
        startup_packets.startup("user", "a", end=b"\0x"),
        startup_packets.startup("user"),
        startup_packets.startup("user", "a", "", "b"),
        startup_packets.startup("", ""),
        startup_packets.startup("user", "a", end=b"\0user\0b\0\0"),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("160301020001000001fc0303") + bytes(512),
    ],
)
def test_what_is_no_first_packet(packet: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_first_packet(packet)


def test_packets_may_be_as_long_as_with_postgres_and_no_longer() -> None:
    room = 10_004 - len(startup_packets.startup("user", ""))
    longest = startup_packets.startup("user", "a" * room)
    assert parse_packet_length(longest[:8]) == len(longest) == 10_004
    assert parse_startup(longest).parameters == {"user": "a" * room}
    for length in (0, 4, 7, 10_005, 2**31, 2**32 - 1):
        with pytest.raises(ProtocolError):
            parse_packet_length(length.to_bytes(4, "big"))

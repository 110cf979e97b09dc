"""Fuzzing of the parsers for unauthenticated clients: each input is parsed or rejected with an expected error.

Valid packets and messages are mutate at random, a million of them in the long tier. A failure reports its seed, so
that it can be repeated.
"""

import random
import secrets
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bough.errors import Invalid
from bough.gateway.auth import password
from bough.gateway.auth.scram import SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramExchange, ScramVerifier, WrongPassword
from bough.gateway.routing import resolve_target
from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message, MessageDecoder
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.startup import MAX_PACKET_LENGTH, StartupMessage, parse_first_packet
from gateway.wire import startup_packets
from support.scram_client import ScramClient, make_verifier

EP = "ep-calm-sea-1a2b3c4d"
STORED = make_verifier(b"s3cret", b"0123456789abcdef", 1)
KNOWN = ScramVerifier.parse(STORED) or ScramVerifier.mock(b"", "")
ANSWERS = (ProtocolError, Invalid, WrongPassword)
EVERYDAY, LONG = 40_000, 1_000_000


def read_first_packet(data: bytes) -> None:
    found = parse_first_packet(data)
    assert len(data) <= MAX_PACKET_LENGTH
    if isinstance(found, StartupMessage):
        messages.encode_negotiate_protocol_version(found.extensions, minor=found.agreed_minor)
        wanted = resolve_target(f"{EP}.us-east-2.aws.localhost", "localhost", found.parameters)
        again = messages.encode_startup({"user": wanted.role, "database": wanted.database, **wanted.parameters})
        assert isinstance(parse_first_packet(again), StartupMessage)


def read_host(data: bytes) -> None:
    host, _, options = data.decode("latin-1").partition(" ")
    found = resolve_target(host, "localhost", {"user": "a", "options": options})
    assert found.endpoint is None or len(found.endpoint) <= 60
    received = _split_options(found.parameters.get("options", ""))
    assert [word for word in received if word.startswith(("endpoint=", "project="))] == []
    assert [word for word in received if word != "-c"] == [
        word for word in _split_options(options) if not _names_endpoint(word)
    ]


def _split_options(options: str) -> list[str]:
    """Split options character by character, as Postgres does."""
    words, word, is_escaped = [], "", False
    for letter in options:
        if not is_escaped and letter in " \t\n\v\f\r":
            words.append(word)
            word = ""
        elif not is_escaped and letter == "\\":
            is_escaped = True
        else:
            word += letter
            is_escaped = False
    return [word for word in (*words, word) if word]


def _names_endpoint(word: str) -> bool:
    starts = [start + name for start in ("", "--", "-c") for name in ("endpoint=", "project=")]
    return word == "-c" or word.startswith(tuple(starts))


def read_stream(data: bytes) -> None:
    decoder = MessageDecoder(300)
    for at in range(0, len(data), 37):
        decoder.feed(data[at : at + 37])
        while (message := decoder.next_message()) is not None:
            assert len(message.body) <= 296
        assert len(decoder) <= 301


def read_messages(data: bytes) -> None:
    messages.parse_error_response(data).encode()
    for reader in (
        messages.parse_sasl_initial_response,
        messages.parse_backend_key_data,
        messages.parse_parameter_status,
    ):
        _expect_rejection(reader, data)
    messages.parse_authentication_code(data)


def read_password(data: bytes) -> None:
    text = messages.parse_password(data)
    found = password.split_endpoint_password(text)
    assert found is None or text.endswith(found[1])
    password.verify_password(found[1] if found else text, KNOWN)


def read_first_proof(data: bytes) -> None:
    _expect_rejection(
        lambda data: ScramExchange(KNOWN, bytes(32), is_known=True).handle_client_first(SCRAM_SHA_256_PLUS, data),
        data,
    )
    ScramExchange(KNOWN, bytes(32), is_known=True).handle_client_first(SCRAM_SHA_256, data)


def read_last_proof(data: bytes) -> None:
    server = ScramExchange(KNOWN, None, is_known=True)
    nonce = server.handle_client_first(SCRAM_SHA_256, b"n,,n=,r=abc").partition(b",")[0]
    with pytest.raises(ANSWERS):  # the proof cannot be guessed
        server.handle_client_final(data.replace(b"r=NONCE", nonce))


def read_verifier(data: bytes) -> None:
    found = ScramVerifier.parse(data.decode("latin-1"))
    assert found is None or (len(found.stored_key), len(found.server_key)) == (32, 32)


def _expect_rejection(reader: Callable[[bytes], object], data: bytes) -> None:
    try:
        reader(data)
    except ANSWERS:
        pass


_STREAM = b"".join(
    Message(kind, bytes(size)).encode() for kind, size in ((b"Q", 9), (b"p", 200), (b"X", 0), (b"d", 90))
)
_CLIENT = ScramClient(b"s3cret", name="alice")
_OPTIONS = f"{EP}-pooler.us-east-2.aws.localhost -c geqo=off endpoint={EP} -c a=b\\ c".encode()
_ERROR = messages.ErrorResponse(sqlstate="28P01", message="no", detail="d", hint="h").encode()[5:]
GOOD: dict[Callable[[bytes], None], list[bytes]] = {
    read_first_packet: [
        startup_packets.SSL, startup_packets.GSS, startup_packets.CANCEL, startup_packets.LIBPQ_15,
        startup_packets.LIBPQ_18, startup_packets.JDBC, startup_packets.ASYNCPG,
        startup_packets.REPLICATION,
    ],
    read_host: [_OPTIONS, f"localhost project={EP}".encode(), f"{EP}.localhost. --endpoint={EP}".encode()],
    read_stream: [_STREAM, _STREAM * 3],
    read_messages: [_ERROR, b"SCRAM-SHA-256\0\0\0\0\x03n,,", bytes(8), b"TimeZone\0UTC\0"],
    read_password: [f"endpoint={EP};s3cret\0".encode(), "pässwörd\u200b\0".encode(), b"\xe4\xff\0"],
    read_first_proof: [_CLIENT.first_message(), b"p=tls-server-end-point,,n=,r=abc", b"y,,n=,r=abc,x=y"],
    read_last_proof: [b"c=biws,r=NONCE,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", b"c=eSws,r=NONCE,x=y,p=AAAA"],
    read_verifier: [STORED.encode()],
}  # fmt: skip
_ODD = [
    b"\0",
    b"\xff",
    b"=",
    b",",
    b";",
    b"$",
    b"\\",
    b" ",
    b".",
    b"-",
    b"_pq_.",
    b"endpoint=",
    b"user\0",
    b"\0\0\0\x05",
]


def mutate(good: bytes, rng: random.Random) -> bytes:
    """Change, cut, repeat or insert a few bytes; sometimes insert something long."""
    data = bytearray(good)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] = rng.randrange(256)
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.randrange(1, 9)]
            case 3:
                data[at:at] = rng.choice(_ODD)
            case 4:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 5:
                data[at:at] = data[: rng.randrange(len(data) + 1)]
            case _ if rng.random() < 0.02:
                data[at:at] = bytes([rng.randrange(256)]) * rng.randrange(12_000)
    if len(good) >= 8 and rng.random() < 0.5:  # a valid length gets further into the parser
        data[:4] = len(data).to_bytes(4, "big") if good[:2] == b"\0\0" else data[:4]
    return bytes(data)


@pytest.mark.parametrize("reader", GOOD, ids=lambda reader: reader.__name__)
def test_spoiled_bytes_end_in_an_answer(reader: Callable[[bytes], None], is_long_run: bool) -> None:
    seed = secrets.randbits(32)
    rng = random.Random(seed)
    replied = rejected = 0
    for turn in range((LONG if is_long_run else EVERYDAY) // len(GOOD)):
        data = mutate(rng.choice(GOOD[reader]), rng)
        try:
            reader(data)
            replied += 1
        except ANSWERS:
            rejected += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, turn {turn}: {data!r}") from error
    assert replied > 0  # otherwise the mutations are too coarse to reach anything


@given(st.sampled_from(list(GOOD)), st.binary(max_size=300))
def test_bytes_of_chance_end_in_an_answer(reader: Callable[[bytes], None], data: bytes) -> None:
    _expect_rejection(reader, data)


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=8), st.text(max_size=80) | st.none())
def test_any_parameters_and_host(parameters: dict[str, str], host: str | None) -> None:
    try:
        found = resolve_target(host, "localhost", parameters)
    except Invalid:
        return
    assert 0 < len(found.role.encode()) <= 63


@pytest.mark.parametrize("filling", [b"a", b"\0", b"a\0", b"\xff", b"\\", b"=", b",", b" ", b"endpoint=a ", b"-c "])
def test_no_packet_takes_much_memory(filling: bytes) -> None:
    """An unauthenticated client may send 10 KB; parsing takes a small multiple of that, and frees all of it."""
    body = (filling * MAX_PACKET_LENGTH)[: MAX_PACKET_LENGTH - 8 - len(b"user\0a\0options\0\0\0")]
    tracemalloc.start()
    try:
        for reader in GOOD:
            for data in (startup_packets.packet(0x30000, b"user\0a\0options\0" + body + b"\0\0"), body + b"\0"):
                _expect_rejection(reader, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 * MAX_PACKET_LENGTH


def test_the_good_ones_are_good() -> None:
    """Otherwise mutating them would prove little."""
    for reader in (read_first_packet, read_stream, read_password, read_verifier):
        for data in GOOD[reader]:
            reader(data)
    read_host(_OPTIONS)
    read_first_proof(_CLIENT.first_message())

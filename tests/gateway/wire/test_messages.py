"""Messages, byte for byte as the protocol documentation describes them."""

import pytest

from bough.gateway.wire import messages
from bough.gateway.wire.framing import Message, MessageDecoder
from bough.gateway.wire.messages import ErrorResponse, parse_error_response
from bough.gateway.wire.protocol_error import ProtocolError


def body(encoded: bytes) -> bytes:
    decoder = MessageDecoder(10**6)
    decoder.feed(encoded)
    message = decoder.next_message()
    assert message is not None
    assert decoder.take_remainder() == b""
    return message.body


def test_an_error_has_its_severity_twice() -> None:
    """The severity is sent for people and for programs; hint and detail only if there are any."""
    assert ErrorResponse(sqlstate="28P01", message="no").encode() == b"E\0\0\0\x1eSFATAL\0VFATAL\0C28P01\0Mno\0\0"
    reported = ErrorResponse(sqlstate="57P03", message="m", detail="d", hint="h", severity="ERROR")
    assert body(reported.encode()) == b"SERROR\0VERROR\0C57P03\0Mm\0Dd\0Hh\0\0"
    assert parse_error_response(body(reported.encode())) == reported


def test_an_error_can_quote_anything() -> None:
    reported = ErrorResponse(sqlstate="28P01", message="zero \0 and \udce4 and \ud800 and ü", hint="\0")
    assert body(reported.encode()) == "SFATAL\0VFATAL\0C28P01\0Mzero  and ? and ? and ü\0H\0\0".encode()


def test_errors_of_servers_are_read() -> None:
    parsed = parse_error_response(b"SFEHLER\0VERROR\0C42P01\0Mfehlt\0P15\0Fparse.c\0L1\0Rf\0\0")
    assert parsed == ErrorResponse(sqlstate="42P01", message="fehlt", severity="ERROR")
    assert parse_error_response(b"SERROR\0C42P01\0Mold\0\0").severity == "ERROR"
    assert parse_error_response(b"").message == ""
    assert parse_error_response(b"M\xff\0").message == "\ufffd"


def test_questions_for_a_proof() -> None:
    assert bytes.fromhex("520000000800000000") == messages.AUTHENTICATION_OK
    assert bytes.fromhex("520000000800000003") == messages.AUTHENTICATION_CLEARTEXT_PASSWORD
    encoded = messages.encode_authentication_sasl(["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"])
    assert encoded == b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"
    assert messages.encode_authentication_sasl_continue(b"r=x") == b"R\0\0\0\x0b\0\0\0\x0br=x"
    assert messages.encode_authentication_sasl_final(b"v=x") == b"R\0\0\0\x0b\0\0\0\x0cv=x"
    assert messages.parse_authentication_code(body(messages.encode_authentication_sasl_final(b""))) == 12
    with pytest.raises(ProtocolError):
        messages.parse_authentication_code(b"\0\0")


def test_answers_to_them() -> None:
    assert messages.parse_sasl_initial_response(b"SCRAM-SHA-256\0\0\0\0\x03n,,") == ("SCRAM-SHA-256", b"n,,")
    assert messages.parse_sasl_initial_response(b"X\0\xff\xff\xff\xff") == ("X", b"")
    assert messages.parse_password(b"s3cret\0") == "s3cret"
    assert messages.parse_password(b"\0") == ""


@pytest.mark.parametrize(
    "body", [b"", b"X", b"X\0", b"X\0\0\0\0", b"X\0\0\0\0\x04n,,", b"X\0\0\0\0\x02n,,", b"X\0\xff\xff\xff\xffn"]
)
def test_cut_off_answers(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.parse_sasl_initial_response(body)


@pytest.mark.parametrize("body", [b"", b"s3cret", b"s3\0cret\0", b"s3cret\0\0"])
def test_passwords_that_do_not_end(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        messages.parse_password(body)


@pytest.mark.parametrize("key", [b"1234", bytes(range(32)), bytes(256)])
def test_cancel_keys_go_both_ways(key: bytes) -> None:
    assert messages.parse_backend_key_data(body(messages.encode_backend_key_data(2**32 - 1, key))) == (2**32 - 1, key)
    assert (
        messages.encode_cancel_request(7, key)
        == (12 + len(key)).to_bytes(4, "big") + bytes.fromhex("04d2162e00000007") + key
    )


def test_a_cancel_key_that_is_none() -> None:
    with pytest.raises(ProtocolError):
        messages.parse_backend_key_data(bytes(7))


def test_parameters_of_a_session() -> None:
    assert messages.encode_parameter_status("TimeZone", "UTC") == b"S\0\0\0\x11TimeZone\0UTC\0"
    assert messages.parse_parameter_status(b"TimeZone\0UTC\0") == ("TimeZone", "UTC")
    for wrong in (b"", b"a\0", b"a\0b", b"a\0b\0c", b"a\0b\0\0"):
        with pytest.raises(ProtocolError):
            messages.parse_parameter_status(wrong)


def test_ready_for_query() -> None:
    ready = Message(messages.READY_FOR_QUERY, b"I").encode()
    assert ready.startswith(messages.READY_FOR_QUERY_HEADER)
    assert len(ready) == messages.READY_FOR_QUERY_LENGTH


def test_a_startup_for_postgres() -> None:
    """A parameter without a name would end the packet early, so it is omitted."""
    assert messages.encode_startup({"user": "a", "": "x"}) == b"\0\0\0\x10\0\3\0\0user\0a\0\0"

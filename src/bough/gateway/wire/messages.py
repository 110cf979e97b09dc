"""Encodes and parses messages of the protocol."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bough.gateway.wire.framing import Message
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.startup import PROTOCOL_MAJOR

AUTHENTICATION = b"R"
BACKEND_KEY_DATA = b"K"
ERROR_RESPONSE = b"E"
NOTICE_RESPONSE = b"N"
PARAMETER_STATUS = b"S"
PASSWORD_MESSAGE = b"p"
READY_FOR_QUERY = b"Z"
TERMINATE = b"X"
NEGOTIATE_PROTOCOL_VERSION = b"v"

READY_FOR_QUERY_HEADER = READY_FOR_QUERY + b"\0\0\0\x05"
READY_FOR_QUERY_LENGTH = 6  # the header and the transaction status

ACCEPT_TLS = b"S"
REJECT_ENCRYPTION = b"N"

_OK = 0
_CLEARTEXT = 3
_SASL = 10
_SASL_CONTINUE = 11
_SASL_FINAL = 12
_CANCEL = 80877102


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResponse:
    """An error as Postgres reports it."""

    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    routine: str = ""
    severity: str = "FATAL"  # never localized, so the fields S and V are the same

    def encode(self) -> bytes:
        required = {"S": self.severity, "V": self.severity, "C": self.sqlstate, "M": self.message}
        optional = {"D": self.detail, "H": self.hint, "R": self.routine}
        fields = required | {kind: value for kind, value in optional.items() if value}
        return _message(
            ERROR_RESPONSE, b"".join(kind.encode() + _text(value) for kind, value in fields.items()) + b"\0"
        )


def parse_error_response(body: bytes) -> ErrorResponse:
    """Parse the body of an ErrorResponse."""
    fields = {field[:1]: field[1:].decode(errors="replace") for field in body.split(b"\0") if field}
    return ErrorResponse(
        sqlstate=fields.get(b"C", ""),
        message=fields.get(b"M", ""),
        detail=fields.get(b"D", ""),
        hint=fields.get(b"H", ""),
        severity=fields.get(b"V") or fields.get(b"S") or "FATAL",
    )


def encode_authentication_sasl(mechanisms: Iterable[str]) -> bytes:
    return _authentication(_SASL, b"".join(_text(name) for name in mechanisms) + b"\0")


def encode_authentication_sasl_continue(data: bytes) -> bytes:
    return _authentication(_SASL_CONTINUE, data)


def encode_authentication_sasl_final(data: bytes) -> bytes:
    return _authentication(_SASL_FINAL, data)


def parse_authentication_code(body: bytes) -> int:
    if len(body) < 4:
        raise ProtocolError("the authentication request is truncated")
    return int.from_bytes(body[:4])


def encode_backend_key_data(process_id: int, key: bytes) -> bytes:
    return _message(BACKEND_KEY_DATA, process_id.to_bytes(4) + key)


def parse_backend_key_data(body: bytes) -> tuple[int, bytes]:
    if len(body) < 8:
        raise ProtocolError("the cancel key is too short")
    return int.from_bytes(body[:4]), body[4:]


def encode_parameter_status(name: str, value: str) -> bytes:
    return _message(PARAMETER_STATUS, _raw_text(name) + _raw_text(value))


def parse_parameter_status(body: bytes) -> tuple[str, str]:
    fields = body.decode(errors="surrogateescape").split("\0")
    if len(fields) != 3 or fields[2]:
        raise ProtocolError("the parameter status is not a name and a value")
    return fields[0], fields[1]


def encode_negotiate_protocol_version(extensions: Iterable[str], *, minor: int) -> bytes:
    """Offer `minor`, which is never above the client's, and reject these extensions."""
    names = [_raw_text(name) for name in extensions]
    version = (PROTOCOL_MAJOR << 16 | minor).to_bytes(4)
    return _message(NEGOTIATE_PROTOCOL_VERSION, version + len(names).to_bytes(4) + b"".join(names))


def encode_startup(parameters: Mapping[str, str]) -> bytes:
    pairs = (_raw_text(name) + _raw_text(value) for name, value in parameters.items() if name)
    return _packet((PROTOCOL_MAJOR << 16).to_bytes(4) + b"".join(pairs) + b"\0")


def encode_cancel_request(process_id: int, key: bytes) -> bytes:
    return _packet(_CANCEL.to_bytes(4) + process_id.to_bytes(4) + key)


def parse_sasl_initial_response(body: bytes) -> tuple[str, bytes]:
    """Return the mechanism that the client chose and its first SASL message."""
    name, zero, rest = body.partition(b"\0")
    length = int.from_bytes(rest[:4], signed=True)
    data = rest[4:]
    if not zero or len(rest) < 4 or (length != len(data) and not (length == -1 and not data)):
        raise ProtocolError("the first SASL message is truncated")
    return name.decode(errors="replace"), data


def parse_password(body: bytes) -> str:
    """Return the cleartext password; bytes that are not UTF-8 become surrogates."""
    if not body.endswith(b"\0") or b"\0" in body[:-1]:
        raise ProtocolError("the password message is not terminated correctly")
    return body[:-1].decode(errors="surrogateescape")


def _authentication(code: int, data: bytes = b"") -> bytes:
    return _message(AUTHENTICATION, code.to_bytes(4) + data)


def _message(kind: bytes, body: bytes) -> bytes:
    return Message(kind, body).encode()


def _packet(body: bytes) -> bytes:
    return (len(body) + 4).to_bytes(4) + body


def _text(text: str) -> bytes:
    """Encode our own text, which may quote arbitrary input."""
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def _raw_text(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="surrogateescape") + b"\0"


AUTHENTICATION_OK = _authentication(_OK)
AUTHENTICATION_CLEARTEXT_PASSWORD = _authentication(_CLEARTEXT)

"""Messages of the protocol, built and read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bough.gateway.wire.framing import Message
from bough.gateway.wire.malformed import Malformed
from bough.gateway.wire.startup import MAJOR

AUTHENTICATION = b"R"
BACKEND_KEY = b"K"
ERROR = b"E"
NOTICE = b"N"
PARAMETER = b"S"
PASSWORD = b"p"
READY = b"Z"
TERMINATE = b"X"
VERSION = b"v"

READY_HEAD = READY + b"\0\0\0\x05"
READY_LENGTH = 6  # and a byte that says whether a transaction is open

ACCEPT_TLS = b"S"
REFUSE = b"N"

_OK = 0
_CLEARTEXT = 3
_SASL = 10
_SASL_CONTINUE = 11
_SASL_FINAL = 12
_CANCEL = 80877102


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An error as Postgres reports it."""

    code: str  # SQLSTATE
    message: str
    detail: str = ""
    hint: str = ""
    routine: str = ""
    severity: str = "FATAL"  # never translated, so both fields for it are the same

    def encoded(self) -> bytes:
        always = {"S": self.severity, "V": self.severity, "C": self.code, "M": self.message}
        perhaps = {"D": self.detail, "H": self.hint, "R": self.routine}
        fields = always | {kind: value for kind, value in perhaps.items() if value}
        return _message(ERROR, b"".join(kind.encode() + _text(value) for kind, value in fields.items()) + b"\0")


def trouble(body: bytes) -> Trouble:
    """What an error message says."""
    fields = {word[:1]: word[1:].decode(errors="replace") for word in body.split(b"\0") if word}
    return Trouble(
        code=fields.get(b"C", ""),
        message=fields.get(b"M", ""),
        detail=fields.get(b"D", ""),
        hint=fields.get(b"H", ""),
        severity=fields.get(b"V") or fields.get(b"S") or "FATAL",
    )


def ask_sasl(mechanisms: Iterable[str]) -> bytes:
    return _authentication(_SASL, b"".join(_text(name) for name in mechanisms) + b"\0")


def sasl_continue(data: bytes) -> bytes:
    return _authentication(_SASL_CONTINUE, data)


def sasl_final(data: bytes) -> bytes:
    return _authentication(_SASL_FINAL, data)


def authentication_code(body: bytes) -> int:
    if len(body) < 4:
        raise Malformed("the authentication request is cut off")
    return int.from_bytes(body[:4])


def backend_key(process: int, key: bytes) -> bytes:
    return _message(BACKEND_KEY, process.to_bytes(4) + key)


def parse_backend_key(body: bytes) -> tuple[int, bytes]:
    if len(body) < 8:
        raise Malformed("the cancel key is too short")
    return int.from_bytes(body[:4]), body[4:]


def parameter_status(name: str, value: str) -> bytes:
    return _message(PARAMETER, _as_it_came(name) + _as_it_came(value))


def parse_parameter_status(body: bytes) -> tuple[str, str]:
    words = body.decode(errors="surrogateescape").split("\0")
    if len(words) != 3 or words[2]:
        raise Malformed("the parameter status is not a name and a value")
    return words[0], words[1]


def negotiate_version(extensions: Iterable[str], *, minor: int) -> bytes:
    """We will speak `minor`, which is never above what the client asked for, and none of these extensions."""
    names = [_as_it_came(name) for name in extensions]
    agreed = (MAJOR << 16 | minor).to_bytes(4)
    return _message(VERSION, agreed + len(names).to_bytes(4) + b"".join(names))


def startup(parameters: Mapping[str, str]) -> bytes:
    pairs = (_as_it_came(name) + _as_it_came(value) for name, value in parameters.items() if name)
    return _packet((MAJOR << 16).to_bytes(4) + b"".join(pairs) + b"\0")


def cancel(process: int, key: bytes) -> bytes:
    return _packet(_CANCEL.to_bytes(4) + process.to_bytes(4) + key)


def sasl_initial(body: bytes) -> tuple[str, bytes]:
    """The mechanism that a client chose and its first words."""
    name, zero, rest = body.partition(b"\0")
    length = int.from_bytes(rest[:4], signed=True)
    data = rest[4:]
    if not zero or len(rest) < 4 or (length != len(data) and not (length == -1 and not data)):
        raise Malformed("the first SASL message is cut off")
    return name.decode(errors="replace"), data


def password(body: bytes) -> str:
    """A password in clear text, as it was asked for; bytes that are not UTF-8 are surrogates in it."""
    if not body.endswith(b"\0") or b"\0" in body[:-1]:
        raise Malformed("the password message does not end as it must")
    return body[:-1].decode(errors="surrogateescape")


def _authentication(code: int, data: bytes = b"") -> bytes:
    return _message(AUTHENTICATION, code.to_bytes(4) + data)


def _message(kind: bytes, body: bytes) -> bytes:
    return Message(kind, body).encoded()


def _packet(body: bytes) -> bytes:
    return (len(body) + 4).to_bytes(4) + body


def _text(text: str) -> bytes:
    """Our own words, whatever was quoted in them."""
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def _as_it_came(text: str) -> bytes:
    return text.replace("\0", "").encode(errors="surrogateescape") + b"\0"


AUTHENTICATION_OK = _authentication(_OK)
ASK_PASSWORD = _authentication(_CLEARTEXT)

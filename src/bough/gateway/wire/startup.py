"""The first packet of a connection: a wish for encryption, a cancel, or the startup itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bough.gateway.wire.protocol_error import FEATURE_NOT_SUPPORTED, ProtocolError

MAX_PACKET_LENGTH = 10_004  # Postgres takes 10,000 after the length
HEADER_LENGTH = 8  # length and code
PROTOCOL_MAJOR = 3
NEWEST_PROTOCOL_MINOR = 2

_CANCEL = 80877102
_SSL = 80877103
_GSS = 80877104
_LONGEST_CANCEL_KEY = 256
_EXTENSION = "_pq_."
_NAME_BYTES = 63  # Postgres cuts longer names there
_SPACE, _TILDE = b" ~"  # what is between them is printed as it is


@dataclass(frozen=True, slots=True)
class SslRequest:
    pass


@dataclass(frozen=True, slots=True)
class GssRequest:
    pass


@dataclass(frozen=True, slots=True)
class CancelRequest:
    process_id: int
    secret_key: bytes


@dataclass(frozen=True, slots=True)
class StartupMessage:
    """Bytes that are not UTF-8 stand in `parameters` as surrogates, and go to Postgres as they came."""

    minor: int
    parameters: Mapping[str, str]
    extensions: tuple[str, ...] = field(default=())  # asked for and not known: `_pq_.…`

    @property
    def needs_negotiation(self) -> bool:
        return self.minor > NEWEST_PROTOCOL_MINOR or bool(self.extensions)

    @property
    def application_name(self) -> bytes:
        """As Postgres reports it."""
        given = self.parameters.get("application_name", "").encode(errors="surrogateescape")[:_NAME_BYTES]
        return b"".join(b"%c" % byte if _SPACE <= byte <= _TILDE else b"\\x%02x" % byte for byte in given)

    @property
    def agreed_minor(self) -> int:
        return min(self.minor, NEWEST_PROTOCOL_MINOR)


FirstPacket = SslRequest | GssRequest | CancelRequest | StartupMessage


def parse_packet_length(head: bytes) -> int:
    """How long the whole packet is, known from its first four bytes."""
    length = int.from_bytes(head[:4])
    if not HEADER_LENGTH <= length <= MAX_PACKET_LENGTH:
        raise ProtocolError("the first packet is not one of the Postgres protocol")
    return length


def parse_first_packet(packet: bytes) -> FirstPacket:
    """A whole first packet, of the length that it says."""
    if len(packet) != parse_packet_length(packet):
        raise ProtocolError("the first packet is cut off")
    code = int.from_bytes(packet[4:HEADER_LENGTH])
    body = packet[HEADER_LENGTH:]
    if code == _CANCEL:
        return _cancel(body)
    if code in (_SSL, _GSS):
        if body:
            raise ProtocolError("a request for encryption carries nothing")
        return SslRequest() if code == _SSL else GssRequest()
    major, minor = code >> 16, code & 0xFFFF
    if major != PROTOCOL_MAJOR:
        raise ProtocolError(
            f"protocol {major}.{minor} is not spoken here, only {PROTOCOL_MAJOR}.0 to "
            f"{PROTOCOL_MAJOR}.{NEWEST_PROTOCOL_MINOR}",
            FEATURE_NOT_SUPPORTED,
        )
    return _startup(minor, body)


def _cancel(body: bytes) -> CancelRequest:
    if not 4 < len(body) <= 4 + _LONGEST_CANCEL_KEY:
        raise ProtocolError("the cancel request has no key of a possible length")
    return CancelRequest(int.from_bytes(body[:4]), body[4:])


def _startup(minor: int, body: bytes) -> StartupMessage:
    words = body.decode(errors="surrogateescape").split("\0")
    # name, value, …, an empty name, and nothing after its zero
    if len(words) % 2 or words[-2:] != ["", ""]:
        raise ProtocolError("the startup packet does not end as it must")
    names, values = words[:-2:2], words[1:-2:2]
    if "" in names:
        raise ProtocolError("the startup packet has a parameter without a name")
    given = zip(names, values, strict=True)
    return StartupMessage(
        minor,
        {name: value for name, value in given if not name.startswith(_EXTENSION)},
        tuple(name for name in names if name.startswith(_EXTENSION)),
    )

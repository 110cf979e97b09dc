"""The first packet of a connection: an encryption request, a cancel request, or the startup message."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bough.gateway.wire.protocol_error import FEATURE_NOT_SUPPORTED, ProtocolError

MAX_PACKET_LENGTH = 10_004  # Postgres accepts 10,000 bytes after the length
HEADER_LENGTH = 8  # length and request code
PROTOCOL_MAJOR = 3
NEWEST_PROTOCOL_MINOR = 2

_CANCEL = 80877102
_SSL = 80877103
_GSS = 80877104
_MAX_CANCEL_KEY_BYTES = 256
_EXTENSION_PREFIX = "_pq_."
_MAX_NAME_BYTES = 63  # Postgres truncates longer names
_SPACE, _TILDE = b" ~"  # the range of printable characters


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
    """Bytes that are not UTF-8 are surrogates in `parameters`, and are forwarded to Postgres unchanged."""

    minor: int
    parameters: Mapping[str, str]
    extensions: tuple[str, ...] = field(default=())  # requested protocol extensions (`_pq_.…`); we support none

    @property
    def needs_negotiation(self) -> bool:
        return self.minor > NEWEST_PROTOCOL_MINOR or bool(self.extensions)

    @property
    def application_name(self) -> bytes:
        """Encode the name as Postgres reports it."""
        name = self.parameters.get("application_name", "").encode(errors="surrogateescape")[:_MAX_NAME_BYTES]
        return b"".join(b"%c" % byte if _SPACE <= byte <= _TILDE else b"\\x%02x" % byte for byte in name)

    @property
    def agreed_minor(self) -> int:
        return min(self.minor, NEWEST_PROTOCOL_MINOR)


FirstPacket = SslRequest | GssRequest | CancelRequest | StartupMessage


def parse_packet_length(header: bytes) -> int:
    """Return the length of the whole packet, from its first four bytes."""
    length = int.from_bytes(header[:4])
    if not HEADER_LENGTH <= length <= MAX_PACKET_LENGTH:
        raise ProtocolError("the first packet is not one of the Postgres protocol")
    return length


def parse_first_packet(packet: bytes) -> FirstPacket:
    """Parse a complete first packet."""
    if len(packet) != parse_packet_length(packet):
        raise ProtocolError("the first packet is truncated")
    code = int.from_bytes(packet[4:HEADER_LENGTH])
    body = packet[HEADER_LENGTH:]
    if code == _CANCEL:
        return _parse_cancel_request(body)
    if code in (_SSL, _GSS):
        if body:
            raise ProtocolError("an encryption request has an unexpected body")
        return SslRequest() if code == _SSL else GssRequest()
    major, minor = code >> 16, code & 0xFFFF
    if major != PROTOCOL_MAJOR:
        raise ProtocolError(
            f"protocol {major}.{minor} is not supported, only {PROTOCOL_MAJOR}.0 to "
            f"{PROTOCOL_MAJOR}.{NEWEST_PROTOCOL_MINOR}",
            FEATURE_NOT_SUPPORTED,
        )
    return _parse_startup(minor, body)


def _parse_cancel_request(body: bytes) -> CancelRequest:
    if not 4 < len(body) <= 4 + _MAX_CANCEL_KEY_BYTES:
        raise ProtocolError("the cancel request has a key of an invalid length")
    return CancelRequest(int.from_bytes(body[:4]), body[4:])


def _parse_startup(minor: int, body: bytes) -> StartupMessage:
    fields = body.decode(errors="surrogateescape").split("\0")
    # Names and values alternate; an empty name ends the list, with nothing after it.
    if len(fields) % 2 or fields[-2:] != ["", ""]:
        raise ProtocolError("the startup packet is not terminated correctly")
    names, values = fields[:-2:2], fields[1:-2:2]
    if "" in names:
        raise ProtocolError("the startup packet has a parameter without a name")
    parameters = zip(names, values, strict=True)
    return StartupMessage(
        minor,
        {name: value for name, value in parameters if not name.startswith(_EXTENSION_PREFIX)},
        tuple(name for name in names if name.startswith(_EXTENSION_PREFIX)),
    )

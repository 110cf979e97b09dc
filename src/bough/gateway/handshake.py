"""The front door: encryption as the client asks for it, up to its first packet that says what it wants."""

import socket
import ssl
from dataclasses import dataclass

from bough.gateway.channel import ConnectionLost, PlainChannel, TlsChannel
from bough.gateway.errors import ALPN_REQUIRED, ENCRYPTION_REQUIRED
from bough.gateway.stream import Stream
from bough.gateway.tls import ALPN, CertificateReloader, SniSocket
from bough.gateway.wire import messages
from bough.gateway.wire.protocol_error import ProtocolError
from bough.gateway.wire.startup import (
    HEADER_LENGTH,
    CancelRequest,
    FirstPacket,
    GssRequest,
    SslRequest,
    StartupMessage,
    parse_first_packet,
    parse_packet_length,
)

_TLS_RECORD = b"\x16"
_PACKETS = 3  # GSS, then TLS, then what it wants


@dataclass(slots=True)
class ClientConnection:
    """Somebody at the door, and how we speak with them."""

    stream: Stream
    is_local: bool  # came by our unix socket, where nobody listens in
    is_encrypted: bool = False
    server_name: str | None = None  # the host they called
    channel_binding: bytes | None = None  # what ties SCRAM to this TLS connection


async def perform_handshake(
    client: ClientConnection, certificates: CertificateReloader
) -> StartupMessage | CancelRequest:
    if not client.is_local and await _begins_with_tls(client.stream):
        await _encrypt(client, certificates)
        if client.stream.channel.socket.selected_alpn_protocol() != ALPN:  # type: ignore[attr-defined]
            raise ALPN_REQUIRED
    for _ in range(_PACKETS):
        packet = await _packet(client.stream)
        if isinstance(packet, SslRequest) and not client.is_encrypted and not client.is_local:
            await client.stream.send(messages.ACCEPT_TLS)
            await _encrypt(client, certificates)
        elif isinstance(packet, SslRequest | GssRequest):
            await client.stream.send(messages.REJECT_ENCRYPTION)
        elif isinstance(packet, StartupMessage) and not client.is_encrypted and not client.is_local:
            raise ENCRYPTION_REQUIRED
        else:
            return packet
    raise ProtocolError("the client asks for encryption over and over")


async def _packet(line: Stream) -> FirstPacket:
    head = await line.read_exactly(HEADER_LENGTH)
    return parse_first_packet(head + await line.read_exactly(parse_packet_length(head) - HEADER_LENGTH))


async def _begins_with_tls(line: Stream) -> bool:
    """A look at the first byte, which stays where it is."""
    assert isinstance(line.channel, PlainChannel)
    while True:
        try:
            return line.channel.socket.recv(1, socket.MSG_PEEK) == _TLS_RECORD
        except BlockingIOError:
            await line.wait_readable()
        except OSError as error:
            raise ConnectionLost from error


async def _encrypt(visitor: ClientConnection, certificates: CertificateReloader) -> None:
    assert isinstance(visitor.stream.channel, PlainChannel)
    plate = certificates.current
    try:
        sock = plate.ssl_context.wrap_socket(
            visitor.stream.channel.socket, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
    except OSError as error:
        raise ConnectionLost from error
    assert isinstance(sock, SniSocket)
    visitor.stream = Stream(TlsChannel(sock))
    await _tls_handshake(visitor.stream, sock)
    visitor.is_encrypted, visitor.server_name, visitor.channel_binding = True, sock.server_name, plate.channel_binding


async def _tls_handshake(line: Stream, sock: ssl.SSLSocket) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await line.wait_readable()
        except ssl.SSLWantWriteError:
            await line.wait_writable()
        except OSError as error:
            raise ConnectionLost from error
        else:
            return

"""The start of a connection: encryption negotiation up to the startup message or a cancel request."""

import socket
import ssl
from dataclasses import dataclass

from bough.gateway.channel import ConnectionLost, PlainChannel, TlsChannel
from bough.gateway.errors import ALPN_REQUIRED, ENCRYPTION_REQUIRED, ConnectionRejected
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
_MAX_PACKETS = 3  # GSSENCRequest, SSLRequest and the startup message


@dataclass(slots=True)
class ClientConnection:
    """A client connection during handshake and login."""

    stream: Stream
    is_local: bool  # on the local Unix socket, which needs no encryption
    is_encrypted: bool = False
    server_name: str | None = None  # from SNI
    channel_binding: bytes | None = None  # ties SCRAM to this TLS connection


async def perform_handshake(
    client: ClientConnection, certificates: CertificateReloader
) -> StartupMessage | CancelRequest:
    if not client.is_local and await _begins_with_tls(client.stream):
        await _encrypt(client, certificates)
        if client.stream.channel.socket.selected_alpn_protocol() != ALPN:  # type: ignore[attr-defined]
            raise ConnectionRejected(ALPN_REQUIRED)
    for _ in range(_MAX_PACKETS):
        packet = await _read_packet(client.stream)
        if isinstance(packet, SslRequest) and not client.is_encrypted and not client.is_local:
            await client.stream.send(messages.ACCEPT_TLS)
            await _encrypt(client, certificates)
        elif isinstance(packet, SslRequest | GssRequest):
            await client.stream.send(messages.REJECT_ENCRYPTION)
        elif isinstance(packet, StartupMessage) and not client.is_encrypted and not client.is_local:
            raise ConnectionRejected(ENCRYPTION_REQUIRED)
        else:
            return packet
    raise ProtocolError("the client requests encryption repeatedly")


async def _read_packet(stream: Stream) -> FirstPacket:
    header = await stream.read_exactly(HEADER_LENGTH)
    return parse_first_packet(header + await stream.read_exactly(parse_packet_length(header) - HEADER_LENGTH))


async def _begins_with_tls(stream: Stream) -> bool:
    """Peek at the first byte without consuming it."""
    assert isinstance(stream.channel, PlainChannel)
    while True:
        try:
            return stream.channel.socket.recv(1, socket.MSG_PEEK) == _TLS_RECORD
        except BlockingIOError:
            await stream.wait_readable()
        except OSError as error:
            raise ConnectionLost from error


async def _encrypt(client: ClientConnection, certificates: CertificateReloader) -> None:
    assert isinstance(client.stream.channel, PlainChannel)
    certificate = certificates.current
    try:
        sock = certificate.ssl_context.wrap_socket(
            client.stream.channel.socket, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
    except OSError as error:
        raise ConnectionLost from error
    assert isinstance(sock, SniSocket)
    client.stream = Stream(TlsChannel(sock))
    await _tls_handshake(client.stream, sock)
    client.is_encrypted, client.server_name = True, sock.server_name
    client.channel_binding = certificate.channel_binding


async def _tls_handshake(stream: Stream, sock: ssl.SSLSocket) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await stream.wait_readable()
        except ssl.SSLWantWriteError:
            await stream.wait_writable()
        except OSError as error:
            raise ConnectionLost from error
        else:
            return

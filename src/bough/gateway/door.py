"""The front door: encryption as the client asks for it, up to its first packet that says what it wants."""

import socket
import ssl
from dataclasses import dataclass

from bough.gateway.channel import Lost, PlainChannel, TlsChannel
from bough.gateway.errors import NOT_POSTGRES, UNENCRYPTED
from bough.gateway.line import Line
from bough.gateway.tls import ALPN, CalledSocket, Certificates
from bough.gateway.wire import messages
from bough.gateway.wire.malformed import Malformed
from bough.gateway.wire.startup import (
    HEAD,
    CancelRequest,
    FirstPacket,
    GssRequest,
    SslRequest,
    Startup,
    length_of,
    parse,
)

_TLS_RECORD = b"\x16"
_PACKETS = 3  # GSS, then TLS, then what it wants


@dataclass(slots=True)
class Visitor:
    """Somebody at the door, and how we speak with them."""

    line: Line
    is_local: bool  # came by our unix socket, where nobody listens in
    is_encrypted: bool = False
    called: str | None = None  # the host they called
    binding: bytes | None = None  # what ties SCRAM to this TLS connection


async def enter(visitor: Visitor, certificates: Certificates) -> Startup | CancelRequest:
    if not visitor.is_local and await _begins_with_tls(visitor.line):
        await _encrypt(visitor, certificates)
        if visitor.line.channel.socket.selected_alpn_protocol() != ALPN:  # type: ignore[attr-defined]
            raise NOT_POSTGRES
    for _ in range(_PACKETS):
        packet = await _packet(visitor.line)
        if isinstance(packet, SslRequest) and not visitor.is_encrypted and not visitor.is_local:
            await visitor.line.send(messages.ACCEPT_TLS)
            await _encrypt(visitor, certificates)
        elif isinstance(packet, SslRequest | GssRequest):
            await visitor.line.send(messages.REFUSE)
        elif isinstance(packet, Startup) and not visitor.is_encrypted and not visitor.is_local:
            raise UNENCRYPTED
        else:
            return packet
    raise Malformed("the client asks for encryption over and over")


async def _packet(line: Line) -> FirstPacket:
    head = await line.exactly(HEAD)
    return parse(head + await line.exactly(length_of(head) - HEAD))


async def _begins_with_tls(line: Line) -> bool:
    """A look at the first byte, which stays where it is."""
    assert isinstance(line.channel, PlainChannel)
    while True:
        try:
            return line.channel.socket.recv(1, socket.MSG_PEEK) == _TLS_RECORD
        except BlockingIOError:
            await line.readable()
        except OSError as error:
            raise Lost from error


async def _encrypt(visitor: Visitor, certificates: Certificates) -> None:
    assert isinstance(visitor.line.channel, PlainChannel)
    plate = certificates.current
    try:
        sock = plate.context.wrap_socket(
            visitor.line.channel.socket, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
    except OSError as error:
        raise Lost from error
    assert isinstance(sock, CalledSocket)
    visitor.line = Line(TlsChannel(sock))
    await _shake_hands(visitor.line, sock)
    visitor.is_encrypted, visitor.called, visitor.binding = True, sock.called, plate.binding


async def _shake_hands(line: Line, sock: ssl.SSLSocket) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await line.readable()
        except ssl.SSLWantWriteError:
            await line.writable()
        except OSError as error:
            raise Lost from error
        else:
            return

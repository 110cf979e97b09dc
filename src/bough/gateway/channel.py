"""One end of a connection: a non-blocking socket, with or without TLS.

TLS runs on the socket itself instead of a transport of the event loop: an idle connection holds no buffers, a
half-closed connection keeps working, and a message costs one call in each direction.
"""

import select
import socket
import ssl
from contextlib import suppress
from typing import Any, Protocol

_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ConnectionLost(Exception):
    """The connection ended without a proper close."""


class Channel(Protocol):
    fd: int

    def receive(self, buffer: memoryview) -> int | None:
        """Return the number of bytes received: 0 at the end of the stream, None if none are available now."""

    def send(self, data: memoryview | bytes | bytearray) -> int:
        """Return the number of bytes sent, possibly 0. The caller must repeat the rest unchanged."""

    def shutdown_write(self) -> None:
        """Send nothing more; receiving still works."""

    def close(self) -> None: ...


def is_disconnected(fd: int) -> bool:
    """Whether the peer has disconnected, without reading from the socket."""
    poll = select.poll()
    poll.register(fd, select.POLLHUP | select.POLLERR)
    return bool(poll.poll(0))


class PlainChannel:
    __slots__ = ("fd", "socket")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.fd = sock.fileno()

    def receive(self, buffer: memoryview) -> int | None:
        try:
            return self.socket.recv_into(buffer)
        except BlockingIOError:
            return None
        except OSError as error:
            raise ConnectionLost from error

    def send(self, data: memoryview | bytes | bytearray) -> int:
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionLost from error

    def shutdown_write(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()


class TlsChannel:
    __slots__ = ("_read", "_write", "fd", "socket")

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.socket = sock
        self.fd = sock.fileno()
        # The methods of SSLSocket call these. Calling them directly saves a call per message.
        tls: Any = sock._sslobj  # type: ignore[attr-defined]
        self._read, self._write = tls.read, tls.write

    def receive(self, buffer: memoryview) -> int | None:
        """Receive at most one TLS record of 16 KiB. An end without a close_notify raises ConnectionLost."""
        try:
            count: int = self._read(len(buffer), buffer)
            return count
        except _WOULD_BLOCK:
            return None
        except (OSError, ValueError) as error:  # SSLError is an OSError; a closed socket raises ValueError
            raise ConnectionLost from error

    def send(self, data: memoryview | bytes | bytearray) -> int:
        """Each call sends one record, so call until all of the data is sent."""
        length = len(data)
        sent = 0
        try:
            sent = self._write(data)
            while sent < length:
                sent += self._write(memoryview(data)[sent:])
        except _WOULD_BLOCK:
            pass
        except (OSError, ValueError) as error:
            raise ConnectionLost from error
        return sent

    def shutdown_write(self) -> None:
        with suppress(OSError, ValueError):
            self.socket.unwrap()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

"""One end of a connection: a socket that never waits, with TLS or without.

TLS is spoken on the socket itself and not through a transport of the event loop: an idle connection
keeps no buffers, one that is half closed goes on, and a message costs one call each way.
"""

import select
import socket
import ssl
from contextlib import suppress
from typing import Any, Protocol

_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ConnectionLost(Exception):
    """The other end is gone without a word."""


class Channel(Protocol):
    fd: int

    def receive(self, buffer: memoryview) -> int | None:
        """How many bytes came, 0 at their end, None when there are none now."""

    def send(self, data: memoryview | bytes | bytearray) -> int:
        """How many bytes went, perhaps none; what did not go comes again, unchanged."""

    def shutdown_write(self) -> None:
        """Nothing more will be sent; bytes may still come."""

    def close(self) -> None: ...


def is_disconnected(fd: int) -> bool:
    """Whether the other end is lost, seen without reading."""
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
        # What its methods call, because they are called for every message.
        tls: Any = sock._sslobj  # type: ignore[attr-defined]
        self._read, self._write = tls.read, tls.write

    def receive(self, buffer: memoryview) -> int | None:
        """At most one record, which is 16 KiB. An end that TLS does not announce is a loss, not an end."""
        try:
            count: int = self._read(len(buffer), buffer)
            return count
        except _NOT_NOW:
            return None
        except (OSError, ValueError) as error:  # SSLError is the first, a closed socket the second
            raise ConnectionLost from error

    def send(self, data: memoryview | bytes | bytearray) -> int:
        """A record a call goes out; so as many calls as it takes."""
        whole = len(data)
        sent = 0
        try:
            sent = self._write(data)
            while sent < whole:
                sent += self._write(memoryview(data)[sent:])
        except _NOT_NOW:
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

"""Listen, accept, drain."""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

from bough import log
from bough.gateway.connection import Rooms, serve, stop_all

_AT_ONE_LOOK = 64
_BREATH = 0.2  # seconds before the next look when we have no file descriptors left
_KEEPALIVE = (
    (socket.TCP_KEEPIDLE, 60),
    (socket.TCP_KEEPINTVL, 15),
    (socket.TCP_KEEPCNT, 4),
)

logger = log.get(room="gateway")


class Server:
    def __init__(self, rooms: Rooms, listeners: Iterable[socket.socket]) -> None:
        self._rooms = rooms
        self._listeners = tuple(listeners)
        self._loop = asyncio.get_running_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def connections(self) -> int:
        return len(self._connections)

    def open(self) -> None:
        for listener in self._listeners:
            listener.setblocking(False)
            self._listen(listener)

    def shut(self) -> None:
        """Take nobody new. The supervisor has the listeners too, and gives them to the next worker."""
        for listener in self._listeners:
            if listener.fileno() != -1:
                self._loop.remove_reader(listener.fileno())
                listener.close()

    async def drained(self) -> None:
        """When the last connection is over."""
        await self._empty.wait()

    async def stop(self, seconds: float) -> None:
        """End all of them: those in a session are told, the others are let go."""
        stop_all(self._rooms.relays)
        _, left = await asyncio.wait(self._connections, timeout=seconds) if self._connections else (set(), set())
        for task in left:
            task.cancel()

    def _listen(self, listener: socket.socket) -> None:
        if listener.fileno() != -1:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONE_LOOK):
            try:
                sock, peer = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error("accept_failed", error=str(error))
                self._rest(listener)
                return
            self._begin(sock, peer)

    def _rest(self, listener: socket.socket) -> None:
        """Without this a full table of files would spin."""
        self._loop.remove_reader(listener.fileno())
        self._loop.call_later(_BREATH, self._listen, listener)

    def _begin(self, sock: socket.socket, peer: object) -> None:
        sock.setblocking(False)
        address = _address(peer)
        if address is not None:
            _tune(sock)
        task = self._loop.create_task(serve(self._rooms, sock, address))
        self._connections.add(task)
        self._empty.clear()
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._connections.discard(task)
        if not self._connections:
            self._empty.set()


def _address(peer: object) -> str | None:
    """None for a local client; that of an old network as itself, though it came by a socket of the new one."""
    if not isinstance(peer, tuple):
        return None
    place = ip_address(peer[0])
    return str((isinstance(place, IPv6Address) and place.ipv4_mapped) or place)


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)

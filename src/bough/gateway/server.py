"""Listen, accept, drain. All workers listen on the same sockets; one that has more than another lets it go first."""

import asyncio
import socket
from collections.abc import Callable, Iterable

from bough import log
from bough.gateway.balance import PATIENCE, Balance
from bough.gateway.connection import Rooms, serve
from bough.gateway.errors import STOPPING

_BREATH = 0.2  # seconds after an accept that failed
_KEEPALIVE = (
    (socket.TCP_KEEPIDLE, 60),
    (socket.TCP_KEEPINTVL, 15),
    (socket.TCP_KEEPCNT, 4),
)

logger = log.get(room="gateway")


class Server:
    def __init__(self, rooms: Rooms, listeners: Iterable[socket.socket], balance: Balance) -> None:
        self.rooms = rooms
        self._balance = balance
        self._listeners = tuple(listeners)
        self._loop = asyncio.get_running_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._is_shut = False
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
        self._is_shut = True
        self._balance.leave()
        self.rooms.peers.close()
        for listener in self._listeners:
            if listener.fileno() != -1:
                self._loop.remove_reader(listener.fileno())
                listener.close()

    async def drained(self) -> None:
        """When the last connection is over."""
        await self._empty.wait()

    async def stop(self, seconds: float) -> None:
        """End all of them: those in a session are told, the others are let go."""
        self.rooms.sessions.stop_all(STOPPING.encoded())
        _, left = await asyncio.wait(self._connections, timeout=seconds) if self._connections else (set(), set())
        for task in left:
            task.cancel()

    def _listen(self, listener: socket.socket) -> None:
        if listener.fileno() != -1:
            self._loop.add_reader(listener.fileno(), self._somebody, listener)

    def _somebody(self, listener: socket.socket) -> None:
        if self._balance.has_fewest():
            self._accept(listener)
        else:
            self._rest(listener, PATIENCE, self._accept)

    def _rest(self, listener: socket.socket, seconds: float, then: Callable[[socket.socket], None]) -> None:
        def go_on() -> None:
            self._listen(listener)
            if listener.fileno() != -1:
                then(listener)

        self._loop.remove_reader(listener.fileno())
        self._loop.call_later(seconds, go_on)

    def _accept(self, listener: socket.socket) -> None:
        """One at a time: the next may be another worker's."""
        try:
            sock, name = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # no file descriptor is left: to look again at once would spin
            logger.error("accept_failed", error=str(error))
            self._rest(listener, _BREATH, self._accept)
            return
        self._begin(sock, name)

    def _begin(self, sock: socket.socket, name: object) -> None:
        sock.setblocking(False)
        peer = self.rooms.peers.of(sock, name)
        if not peer.is_local:
            _tune(sock)
        task = self._loop.create_task(serve(self.rooms, sock, peer))
        self._connections.add(task)
        self._balance.note(len(self._connections))
        self._empty.clear()
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._connections.discard(task)
        if not self._is_shut:
            self._balance.note(len(self._connections))
        if not self._connections:
            self._empty.set()


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)

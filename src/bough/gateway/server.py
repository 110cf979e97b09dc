"""Listen, accept, drain. All workers listen on the same sockets; one that has more than another lets it go first."""

import asyncio
import socket
from collections.abc import Callable, Iterable

from bough import log
from bough.gateway.accept_balancer import ACCEPT_DELAY_SECONDS, AcceptBalancer
from bough.gateway.connection import GatewayServices, serve
from bough.gateway.errors import GATEWAY_STOPPING

_BREATH = 0.2  # seconds after an accept that failed
_KEEPALIVE = (
    (socket.TCP_KEEPIDLE, 60),
    (socket.TCP_KEEPINTVL, 15),
    (socket.TCP_KEEPCNT, 4),
)

logger = log.get_logger(component="gateway")


class Server:
    def __init__(self, services: GatewayServices, listeners: Iterable[socket.socket], balance: AcceptBalancer) -> None:
        self.services = services
        self._balance = balance
        self._listeners = tuple(listeners)
        self._loop = asyncio.get_running_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._has_stopped_accepting = False
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def connections(self) -> int:
        return len(self._connections)

    def start_accepting(self) -> None:
        for listener in self._listeners:
            listener.setblocking(False)
            self._listen(listener)

    def stop_accepting(self) -> None:
        """Take nobody new. The supervisor has the listeners too, and gives them to the next worker."""
        self._has_stopped_accepting = True
        self._balance.withdraw()
        self.services.origins.close()
        for listener in self._listeners:
            if listener.fileno() != -1:
                self._loop.remove_reader(listener.fileno())
                listener.close()

    async def wait_drained(self) -> None:
        """When the last connection is over."""
        await self._empty.wait()

    async def stop(self, seconds: float) -> None:
        """End all of them: those in a session are told, the others are let go."""
        self.services.sessions.stop_all(GATEWAY_STOPPING.encode())
        _, left = await asyncio.wait(self._connections, timeout=seconds) if self._connections else (set(), set())
        for task in left:
            task.cancel()

    def _listen(self, listener: socket.socket) -> None:
        if listener.fileno() != -1:
            self._loop.add_reader(listener.fileno(), self._on_acceptable, listener)

    def _on_acceptable(self, listener: socket.socket) -> None:
        if self._balance.has_fewest():
            self._accept(listener)
        else:
            self._pause_listener(listener, ACCEPT_DELAY_SECONDS, self._accept)

    def _pause_listener(self, listener: socket.socket, seconds: float, then: Callable[[socket.socket], None]) -> None:
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
            self._pause_listener(listener, _BREATH, self._accept)
            return
        self._begin(sock, name)

    def _begin(self, sock: socket.socket, name: object) -> None:
        sock.setblocking(False)
        peer = self.services.origins.resolve(sock, name)
        if not peer.is_local:
            _tune(sock)
        task = self._loop.create_task(serve(self.services, sock, peer))
        self._connections.add(task)
        self._balance.record_connections(len(self._connections))
        self._empty.clear()
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._connections.discard(task)
        if not self._has_stopped_accepting:
            self._balance.record_connections(len(self._connections))
        if not self._connections:
            self._empty.set()


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)

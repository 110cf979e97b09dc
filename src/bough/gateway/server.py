"""Accepts connections on the listening sockets, which all workers share, and drains or stops them."""

import asyncio
import socket
from collections.abc import Callable, Iterable

from bough import log
from bough.gateway.accept_balancer import ACCEPT_DELAY_SECONDS, AcceptBalancer
from bough.gateway.connection import GatewayServices, serve
from bough.gateway.errors import GATEWAY_STOPPING

_ACCEPT_RETRY_SECONDS = 0.2
_KEEPALIVE = (
    (socket.TCP_KEEPIDLE, 60),
    (socket.TCP_KEEPINTVL, 15),
    (socket.TCP_KEEPCNT, 4),
)

logger = log.get_logger(component="gateway")


class Server:
    def __init__(self, services: GatewayServices, listeners: Iterable[socket.socket], balancer: AcceptBalancer) -> None:
        self.services = services
        self._balancer = balancer
        self._listeners = tuple(listeners)
        self._loop = asyncio.get_running_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._has_stopped_accepting = False
        self._drained = asyncio.Event()
        self._drained.set()

    @property
    def connections(self) -> int:
        return len(self._connections)

    def start_accepting(self) -> None:
        for listener in self._listeners:
            listener.setblocking(False)
            self._listen(listener)

    def stop_accepting(self) -> None:
        """Close the listeners. The supervisor keeps them open and passes them to the next worker."""
        self._has_stopped_accepting = True
        self._balancer.withdraw()
        self.services.origins.close()
        for listener in self._listeners:
            if listener.fileno() != -1:
                self._loop.remove_reader(listener.fileno())
                listener.close()

    async def wait_drained(self) -> None:
        """Return when the last connection has ended."""
        await self._drained.wait()

    async def stop(self, seconds: float) -> None:
        """Send an error to clients in a session and end all connections, within the given time."""
        self.services.sessions.stop_all(GATEWAY_STOPPING.encode())
        _, remaining = await asyncio.wait(self._connections, timeout=seconds) if self._connections else (set(), set())
        for task in remaining:
            task.cancel()

    def _listen(self, listener: socket.socket) -> None:
        if listener.fileno() != -1:
            self._loop.add_reader(listener.fileno(), self._on_acceptable, listener)

    def _on_acceptable(self, listener: socket.socket) -> None:
        if self._balancer.has_fewest():
            self._accept(listener)
        else:
            self._pause_listener(listener, ACCEPT_DELAY_SECONDS, self._accept)

    def _pause_listener(self, listener: socket.socket, seconds: float, then: Callable[[socket.socket], None]) -> None:
        def resume() -> None:
            self._listen(listener)
            if listener.fileno() != -1:
                then(listener)

        self._loop.remove_reader(listener.fileno())
        self._loop.call_later(seconds, resume)

    def _accept(self, listener: socket.socket) -> None:
        """Accept one connection only, so that another worker can accept the next."""
        try:
            sock, peername = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # such as no file descriptors: retrying at once would spin
            logger.error("accept_failed", error=str(error))
            self._pause_listener(listener, _ACCEPT_RETRY_SECONDS, self._accept)
            return
        self._start(sock, peername)

    def _start(self, sock: socket.socket, peername: object) -> None:
        sock.setblocking(False)
        origin = self.services.origins.resolve(sock, peername)
        if not origin.is_local:
            _set_tcp_options(sock)
        task = self._loop.create_task(serve(self.services, sock, origin))
        self._connections.add(task)
        self._balancer.record_connections(len(self._connections))
        self._drained.clear()
        task.add_done_callback(self._on_done)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._connections.discard(task)
        if not self._has_stopped_accepting:
            self._balancer.record_connections(len(self._connections))
        if not self._connections:
            self._drained.set()


def _set_tcp_options(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)

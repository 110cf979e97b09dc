"""One worker: the rooms of the gateway put together, from the first client to the last."""

import asyncio
import os
import signal
import socket
from contextlib import AsyncExitStack
from typing import Any

from bough import log
from bough.background_task import run_in_background
from bough.errors import PlatformError
from bough.gateway import activity as use
from bough.gateway import cache as remember
from bough.gateway import cancel
from bough.gateway.accept_balancer import AcceptBalancer
from bough.gateway.activity import ActivityReporter
from bough.gateway.backend import BackendConnector
from bough.gateway.cache import ControlCache
from bough.gateway.cancel import CancelKeys
from bough.gateway.client_origin import ClientOrigins
from bough.gateway.connection import GatewayServices
from bough.gateway.control_client import ControlClient
from bough.gateway.limits import LoginLimits
from bough.gateway.login import Authenticator
from bough.gateway.peers import RequestHandlers, WorkerPeers
from bough.gateway.pooling.budget import ServerBudget
from bough.gateway.pooling.pools import Pools
from bough.gateway.server import Server
from bough.gateway.sessions import END_REQUEST, SessionRegistry
from bough.gateway.settings import WorkerSettings
from bough.gateway.tls import CertificateReloader
from bough.gateway.waking import ComputeWaker

DRAIN_SECONDS = 24 * 3600.0
STOP_SECONDS = 5.0
_LOOK_AT_CERTIFICATE = 2.0

logger = log.get_logger(component="gateway")


class Worker:
    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        loop = asyncio.get_running_loop()
        self._draining: asyncio.Future[None] = loop.create_future()
        self._stopping: asyncio.Future[None] = loop.create_future()

    async def run(self, on_ready: Any) -> None:
        """Until it was drained or stopped."""
        async with AsyncExitStack() as stack:
            plane = ControlClient(self._settings.control_socket)
            stack.push_async_callback(plane.close)
            siblings = WorkerPeers(self._settings.folder)
            stack.callback(siblings.close)
            rooms = self._build_services(plane, siblings)
            await siblings.listen(request_handlers(rooms))
            stack.callback(rooms.pools.close)
            rooms.activity.get_pool_stats = rooms.pools.take_stats
            await stack.enter_async_context(run_in_background(rooms.activity.run()))
            rooms.pools.start()
            await stack.enter_async_context(run_in_background(_keep_certificate(rooms.certificates)))
            server = Server(rooms, self._listeners(), AcceptBalancer(self._settings.folder, siblings.number))
            server.start_accepting()
            on_ready()
            logger.info("gateway_ready", pid=os.getpid())
            await self._until_over(server)
            await rooms.activity.report()
        logger.info("gateway_ended", pid=os.getpid())

    def drain(self) -> None:
        """Take nobody new, and end with the last connection."""
        if not self._draining.done():
            self._draining.set_result(None)

    def stop(self) -> None:
        """End now."""
        if not self._stopping.done():
            self._stopping.set_result(None)

    async def _until_over(self, server: Server) -> None:
        await asyncio.wait({self._draining, self._stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.stop_accepting()
        if not self._stopping.done():
            logger.info("gateway_drains", connections=server.connections)
            drained = asyncio.create_task(server.wait_drained())
            await asyncio.wait({drained, self._stopping}, timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
        await server.stop(STOP_SECONDS)

    def _build_services(self, plane: ControlClient, siblings: WorkerPeers) -> GatewayServices:
        remembering, limits = ControlCache(plane, siblings), LoginLimits()
        backends = BackendConnector(remembering, ComputeWaker(plane, remembering))
        return GatewayServices(
            domain=self._settings.domain,
            certificates=CertificateReloader(self._settings.certificate_path),
            limits=limits,
            cache=remembering,
            authenticator=Authenticator(remembering, limits),
            connector=backends,
            cancel_keys=CancelKeys(siblings),
            activity=ActivityReporter(plane, remembering),
            pools=Pools(backends, ServerBudget(self._settings.folder / "pools", siblings.number, siblings.is_alive)),
            sessions=SessionRegistry(remembering),
            origins=ClientOrigins(self._settings.project_uids),
        )

    def _listeners(self) -> list[socket.socket]:
        door = [] if self._settings.local_socket_fd is None else [self._settings.local_socket_fd]
        return [socket.socket(fileno=fd) for fd in (*self._settings.listen_fds, *door)]


def request_handlers(services: GatewayServices) -> RequestHandlers:
    """What the other workers may ask, and control."""
    return {
        cancel.CANCEL_REQUEST: services.cancel_keys.handle_peer_request,
        remember.RECALL_REQUEST: services.cache.handle_recall,
        remember.FORGET_REQUEST: services.cache.handle_forget,
        use.HINT_REQUEST: services.activity.handle_hints,
        END_REQUEST: services.sessions.handle_end,
    }


def watch_supervisor(worker: Worker, alive_fd: int) -> None:
    """Signals, and the pipe that closes with the supervisor."""
    loop = asyncio.get_running_loop()

    def supervisor_gone() -> None:
        loop.remove_reader(alive_fd)
        worker.drain()

    loop.add_signal_handler(signal.SIGTERM, worker.stop)
    loop.add_signal_handler(signal.SIGQUIT, worker.drain)
    loop.add_reader(alive_fd, supervisor_gone)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGQUIT})


async def _keep_certificate(certificates: CertificateReloader) -> None:
    while True:
        await asyncio.sleep(_LOOK_AT_CERTIFICATE)
        try:
            if certificates.reload_if_changed():
                logger.info("certificate_renewed")
        except PlatformError as error:
            logger.error("certificate_refused", error=error.public_message)

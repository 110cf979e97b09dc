"""One gateway worker: builds the services, accepts clients, and drains or stops."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack

from bough import log
from bough.background_task import run_in_background
from bough.domain import gateway_protocol
from bough.domain.private_networks import PrivateNetworks
from bough.errors import PlatformError
from bough.gateway import cache, cancel
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
from bough.gateway.sessions import SessionRegistry
from bough.gateway.settings import WorkerSettings
from bough.gateway.tls import CertificateReloader
from bough.gateway.waking import ComputeWaker

DRAIN_SECONDS = 24 * 3600.0
STOP_SECONDS = 5.0
_CERTIFICATE_CHECK_SECONDS = 2.0

logger = log.get_logger(component="gateway")


class Worker:
    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        loop = asyncio.get_running_loop()
        self._draining: asyncio.Future[None] = loop.create_future()
        self._stopping: asyncio.Future[None] = loop.create_future()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until drained or stopped."""
        async with AsyncExitStack() as stack:
            control = ControlClient(self._settings.control_socket)
            stack.push_async_callback(control.close)
            peers = WorkerPeers(self._settings.folder)
            stack.callback(peers.close)
            services = self._build_services(control, peers)
            await peers.listen(request_handlers(services))
            stack.callback(services.pools.close)
            services.activity.get_pool_stats = services.pools.take_stats
            await stack.enter_async_context(run_in_background(services.activity.run()))
            services.pools.start()
            await stack.enter_async_context(run_in_background(_reload_certificate(services.certificates)))
            server = Server(services, self._listeners(), AcceptBalancer(self._settings.folder, peers.number))
            server.start_accepting()
            on_ready()
            logger.info("gateway_ready", pid=os.getpid())
            await self._serve(server)
            await services.activity.report()
        logger.info("gateway_stopped", pid=os.getpid())

    def drain(self) -> None:
        """Accept no more clients, and end with the last connection."""
        if not self._draining.done():
            self._draining.set_result(None)

    def stop(self) -> None:
        """End now."""
        if not self._stopping.done():
            self._stopping.set_result(None)

    async def _serve(self, server: Server) -> None:
        await asyncio.wait({self._draining, self._stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.stop_accepting()
        if not self._stopping.done():
            logger.info("gateway_draining", connections=server.connections)
            drained = asyncio.create_task(server.wait_drained())
            await asyncio.wait({drained, self._stopping}, timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
        await server.stop(STOP_SECONDS)

    def _build_services(self, control: ControlClient, peers: WorkerPeers) -> GatewayServices:
        control_cache, limits = ControlCache(control, peers), LoginLimits()
        connector = BackendConnector(control_cache, ComputeWaker(control, control_cache))
        return GatewayServices(
            domain=self._settings.domain,
            certificates=CertificateReloader(self._settings.certificate_path),
            limits=limits,
            cache=control_cache,
            authenticator=Authenticator(control_cache, limits),
            connector=connector,
            cancel_keys=CancelKeys(peers),
            activity=ActivityReporter(control, control_cache),
            pools=Pools(connector, ServerBudget(self._settings.folder / "pools", peers.number, peers.is_alive)),
            sessions=SessionRegistry(control_cache),
            origins=ClientOrigins(self._settings.project_uids, PrivateNetworks(self._settings.private_networks)),
        )

    def _listeners(self) -> list[socket.socket]:
        local = [] if self._settings.local_socket_fd is None else [self._settings.local_socket_fd]
        return [socket.socket(fileno=fd) for fd in (*self._settings.listen_fds, *local)]


def request_handlers(services: GatewayServices) -> RequestHandlers:
    """The requests that other workers and control may send to this worker."""
    return {
        cancel.CANCEL_REQUEST: services.cancel_keys.handle_peer_request,
        cache.CACHED_ACCESS_REQUEST: services.cache.handle_cached_access_request,
        gateway_protocol.INVALIDATE_ENDPOINTS: services.cache.handle_invalidation,
        gateway_protocol.SET_HINTS: services.activity.handle_hints,
        gateway_protocol.END_SESSIONS: services.sessions.handle_end,
    }


def watch_supervisor(worker: Worker, alive_fd: int) -> None:
    """Handle signals, and drain when the supervisor ends and its pipe closes."""
    loop = asyncio.get_running_loop()

    def on_supervisor_end() -> None:
        loop.remove_reader(alive_fd)
        worker.drain()

    loop.add_signal_handler(signal.SIGTERM, worker.stop)
    loop.add_signal_handler(signal.SIGQUIT, worker.drain)
    loop.add_reader(alive_fd, on_supervisor_end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGQUIT})


async def _reload_certificate(certificates: CertificateReloader) -> None:
    while True:
        await asyncio.sleep(_CERTIFICATE_CHECK_SECONDS)
        try:
            if certificates.reload_if_changed():
                logger.info("certificate_reloaded")
        except PlatformError as error:
            logger.error("certificate_rejected", reason=error.public_message)

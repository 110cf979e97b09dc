"""One worker: the rooms of the gateway put together, from the first client to the last."""

import asyncio
import os
import signal
import socket
from contextlib import AsyncExitStack
from typing import Any

from bough import log
from bough.beside import beside
from bough.errors import PlatformError
from bough.gateway import activity as use
from bough.gateway import cancel
from bough.gateway import remembering as remember
from bough.gateway.activity import Activity
from bough.gateway.backend import Backends
from bough.gateway.balance import Balance
from bough.gateway.cancel import Cancels
from bough.gateway.connection import Rooms
from bough.gateway.limits import Limits
from bough.gateway.login import Login
from bough.gateway.peer import Peers
from bough.gateway.pooling.budget import Budget
from bough.gateway.pooling.pools import Pools
from bough.gateway.remembering import Remembering
from bough.gateway.remote import RemotePlane
from bough.gateway.server import Server
from bough.gateway.sessions import END, Sessions
from bough.gateway.settings import WorkerSettings
from bough.gateway.siblings import Answers, Siblings
from bough.gateway.tls import Certificates
from bough.gateway.waking import Waking

DRAIN_SECONDS = 24 * 3600.0
STOP_SECONDS = 5.0
_LOOK_AT_CERTIFICATE = 2.0

logger = log.get(room="gateway")


class Worker:
    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        loop = asyncio.get_running_loop()
        self._draining: asyncio.Future[None] = loop.create_future()
        self._stopping: asyncio.Future[None] = loop.create_future()

    async def run(self, ready: Any) -> None:
        """Until it was drained or stopped."""
        async with AsyncExitStack() as stack:
            plane = RemotePlane(self._settings.plane)
            stack.push_async_callback(plane.close)
            siblings = Siblings(self._settings.folder)
            stack.callback(siblings.close)
            rooms = self._rooms(plane, siblings)
            await siblings.listen(answers(rooms))
            stack.callback(rooms.pools.close)
            rooms.activity.pool_use = rooms.pools.use
            await stack.enter_async_context(beside(rooms.activity.keep_reporting()))
            rooms.pools.start()
            await stack.enter_async_context(beside(_keep_certificate(rooms.certificates)))
            server = Server(rooms, self._listeners(), Balance(self._settings.folder, siblings.number))
            server.open()
            ready()
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
        server.shut()
        if not self._stopping.done():
            logger.info("gateway_drains", connections=server.connections)
            drained = asyncio.create_task(server.drained())
            await asyncio.wait({drained, self._stopping}, timeout=DRAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            drained.cancel()
        await server.stop(STOP_SECONDS)

    def _rooms(self, plane: RemotePlane, siblings: Siblings) -> Rooms:
        remembering, limits = Remembering(plane, siblings), Limits()
        backends = Backends(remembering, Waking(plane, remembering))
        return Rooms(
            domain=self._settings.domain,
            certificates=Certificates(self._settings.tls),
            limits=limits,
            remembering=remembering,
            login=Login(remembering, limits),
            backends=backends,
            cancels=Cancels(siblings),
            activity=Activity(plane, remembering),
            pools=Pools(backends, Budget(self._settings.folder / "pools", siblings.number, siblings.is_alive)),
            sessions=Sessions(remembering),
            peers=Peers(self._settings.project_uids),
        )

    def _listeners(self) -> list[socket.socket]:
        door = [] if self._settings.door_fd is None else [self._settings.door_fd]
        return [socket.socket(fileno=fd) for fd in (*self._settings.listen_fds, *door)]


def answers(rooms: Rooms) -> Answers:
    """What the other workers may ask, and control."""
    return {
        cancel.QUESTION: rooms.cancels.from_sibling,
        remember.QUESTION: rooms.remembering.to_sibling,
        remember.FORGET: rooms.remembering.from_control,
        use.HINT: rooms.activity.from_control,
        END: rooms.sessions.from_control,
    }


def watch(worker: Worker, alive_fd: int) -> None:
    """Signals, and the pipe that closes with the supervisor."""
    loop = asyncio.get_running_loop()

    def supervisor_gone() -> None:
        loop.remove_reader(alive_fd)
        worker.drain()

    loop.add_signal_handler(signal.SIGTERM, worker.stop)
    loop.add_signal_handler(signal.SIGQUIT, worker.drain)
    loop.add_reader(alive_fd, supervisor_gone)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGQUIT})


async def _keep_certificate(certificates: Certificates) -> None:
    while True:
        await asyncio.sleep(_LOOK_AT_CERTIFICATE)
        try:
            if certificates.refresh():
                logger.info("certificate_renewed")
        except PlatformError as error:
            logger.error("certificate_refused", error=error.public)

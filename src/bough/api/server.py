"""HTTP servers of this process: the API on its port, and the gateway's questions on a unix socket."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from bough.config import DEFAULT_API_PORT, Settings
from bough.errors import Unavailable

_OPTIONS: dict[str, Any] = {
    "log_config": None,
    "access_log": False,
    "lifespan": "off",
    "server_header": False,
    "timeout_keep_alive": 75,
    "proxy_headers": False,  # uvicorn would believe them from every local user; `proxies` asks the settings
}


@contextmanager
def open_listeners(settings: Settings, inherited_fds: Sequence[int] = ()) -> Iterator[Sequence[socket.socket]]:
    """The API's listening sockets: those that the supervisor holds, or one of our own where there is none."""
    if inherited_fds:
        with ExitStack() as stack:
            yield [stack.enter_context(socket.socket(fileno=descriptor)) for descriptor in inherited_fds]
    else:
        with _bound(settings) as listener:
            yield [listener]


@contextmanager
def _bound(settings: Settings) -> Iterator[socket.socket]:
    """Before anything is started."""
    port = settings.api_port or DEFAULT_API_PORT
    family = socket.AF_INET6 if ":" in settings.listen else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.listen, port))
        except OSError as error:
            raise Unavailable(
                f"The API cannot listen on {settings.listen} port {port}: {error.strerror}. "
                "Choose another with --api-port."
            ) from error
        yield listener


@asynccontextmanager
async def serve_http(app: ASGIApp, *listeners: socket.socket) -> AsyncIterator[None]:
    async with _running(uvicorn.Config(app, timeout_graceful_shutdown=10, **_OPTIONS), list(listeners)):
        yield


@asynccontextmanager
async def serve_unix_socket(app: ASGIApp, path: Path, group: int | None) -> AsyncIterator[None]:
    """On a socket that only we can reach, and the group when there is one: the folder decides."""
    _prepare_socket_folder(path, group)
    # Who waits for a wake asks the next control again.
    async with _running(uvicorn.Config(app, uds=str(path), timeout_graceful_shutdown=1, **_OPTIONS), None):
        yield


def _prepare_socket_folder(path: Path, group: int | None) -> None:
    """The folder is there, and no socket that a control before us left in it."""
    folder = path.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    if group is not None:
        os.chown(folder, -1, group)
    folder.chmod(0o700 if group is None else 0o710)
    path.unlink(missing_ok=True)


@asynccontextmanager
async def _running(config: uvicorn.Config, sockets: list[socket.socket] | None) -> AsyncIterator[None]:
    """uvicorn, without its own signal handling."""
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    serving = asyncio.create_task(server.serve(sockets=sockets))
    while not server.started and not serving.done():  # noqa: ASYNC110  uvicorn has a flag, not an event
        await asyncio.sleep(0.005)
    if serving.done():
        await serving
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@contextmanager
def _no_signals() -> Iterator[None]:
    yield

"""HTTP servers of the control process: the API on a TCP port, and the gateway API on a Unix socket."""

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

UVICORN_OPTIONS: dict[str, Any] = {
    "log_config": None,
    "access_log": False,
    "lifespan": "off",
    "server_header": False,
    "timeout_keep_alive": 75,
    "proxy_headers": False,  # uvicorn would trust every local user; `proxies` uses the settings instead
}
GRACEFUL_SHUTDOWN_SECONDS = 10


@contextmanager
def open_listeners(settings: Settings, inherited_fds: Sequence[int] = ()) -> Iterator[Sequence[socket.socket]]:
    """Yield the listening sockets of the API: those inherited from the supervisor, or a new one."""
    if inherited_fds:
        with ExitStack() as stack:
            yield [stack.enter_context(socket.socket(fileno=descriptor)) for descriptor in inherited_fds]
    else:
        with _open_listener(settings) as listener:
            yield [listener]


@contextmanager
def _open_listener(settings: Settings) -> Iterator[socket.socket]:
    """Bind before anything else is started, so that a port in use is reported at once."""
    port = settings.api_port or DEFAULT_API_PORT
    family = socket.AF_INET6 if ":" in settings.listen else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.listen, port))
        except OSError as error:
            raise Unavailable(
                f"Cannot listen for API requests on {settings.listen} port {port}: {error.strerror}. "
                "Choose another port with --api-port."
            ) from error
        yield listener


@asynccontextmanager
async def serve_http(app: ASGIApp, *listeners: socket.socket) -> AsyncIterator[None]:
    async with _running(
        uvicorn.Config(app, timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_SECONDS, **UVICORN_OPTIONS), list(listeners)
    ):
        yield


@asynccontextmanager
async def serve_unix_socket(app: ASGIApp, path: Path, group: int | None) -> AsyncIterator[None]:
    """Only this user and `group` can connect to the socket; the permissions of its folder enforce it."""
    _prepare_socket_folder(path, group)
    # Short, because a gateway that waits for a wake repeats its request to the next control process.
    async with _running(uvicorn.Config(app, uds=str(path), timeout_graceful_shutdown=1, **UVICORN_OPTIONS), None):
        yield


def _prepare_socket_folder(path: Path, group: int | None) -> None:
    """Create the folder and remove the socket of an earlier control process."""
    folder = path.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    if group is not None:
        os.chown(folder, -1, group)
    folder.chmod(0o700 if group is None else 0o710)
    path.unlink(missing_ok=True)


@asynccontextmanager
async def _running(config: uvicorn.Config, sockets: list[socket.socket] | None) -> AsyncIterator[None]:
    """Run uvicorn without its signal handlers."""
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    serve_task = asyncio.create_task(server.serve(sockets=sockets))
    while not server.started and not serve_task.done():  # noqa: ASYNC110  uvicorn has a flag, not an event
        await asyncio.sleep(0.005)
    if serve_task.done():
        await serve_task
    try:
        yield
    finally:
        server.should_exit = True
        await serve_task


@contextmanager
def _no_signals() -> Iterator[None]:
    yield

"""`bough serve`: the control process, started and watched by the supervisor.

SIGTERM stops the platform with its computes. SIGQUIT, or the end of the supervisor, stops it and
leaves the computes running.
"""

import asyncio
import gc
import os
import resource
import signal
from dataclasses import dataclass
from typing import Annotated

import typer

from bough import config, log
from bough.cli import options
from bough.errors import PlatformError, Unavailable
from bough.supervisor import home_lock, lock, readiness
from bough.supervisor.processes import STOP_SIGNALS

MAX_OPEN_FILES = 65536  # that control may have


@dataclass(frozen=True, slots=True)
class InheritedFds:
    """What the supervisor gave us."""

    ready: int
    alive: int
    api: tuple[int, ...]


def serve(
    *,
    ready_fd: Annotated[int, typer.Option(help="Pipe to tell when ready.")],
    alive_fd: Annotated[int, typer.Option(help="Pipe that closes when the supervisor dies.")],
    api_fd: Annotated[list[int], typer.Option(help="A listening socket of the API.")],
    home: options.Home = None,
    api_port: options.ApiPort = None,
    gateway_port: options.GatewayPort = None,
    domain: options.Domain = None,
    storage: options.Storage = None,
) -> None:
    """Run the control process; `bough up` does this for you."""
    flags = {
        "home": home,
        "api_port": api_port,
        "gateway_port": gateway_port,
        "domain": domain,
        "storage": storage,
    }
    try:
        _serve(config.load_settings(flags), InheritedFds(ready_fd, alive_fd, tuple(api_fd)))
    except PlatformError as error:
        readiness.report_error(ready_fd, error.public_message)
        raise


def _serve(settings: config.Settings, given: InheritedFds) -> None:
    log.configure(settings.log_level, settings.log_file)
    if lock.acquire(lock.control_lock_file(settings), timeout=home_lock.OLD_CONTROL_TIMEOUT) is None:
        raise Unavailable("Another control process still runs in this home.")
    _raise_file_limit()
    import uvloop  # noqa: PLC0415 - `serve --help` and refusals need none of this

    try:
        uvloop.run(_until_stopped(settings, given))
    except OSError as error:
        log.get_logger().exception("control failed")
        raise Unavailable(f"The platform could not run: {error}.") from error


def _raise_file_limit() -> None:
    """One file is open for every compute that runs, to be told of its end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


async def _until_stopped(settings: config.Settings, given: InheritedFds) -> None:
    gc.disable()  # starting makes only what stays: looking for garbage in it costs a quarter of the time
    from bough import app  # noqa: PLC0415 - the whole platform; a second to import

    def ready() -> None:
        gc.freeze()
        gc.enable()
        readiness.report_ready(given.ready)

    await app.serve(settings, ready=ready, stopping=_stop_request(given.alive), api_listeners=given.api)


def _stop_request(alive_fd: int) -> asyncio.Future[bool]:
    """Resolved when the process shall stop: True with its computes, False without them."""
    loop = asyncio.get_running_loop()
    wish: asyncio.Future[bool] = loop.create_future()

    def want(computes_too: bool) -> None:
        if not wish.done():
            wish.set_result(computes_too)

    def supervisor_spoke() -> None:
        if not os.read(alive_fd, 1):
            loop.remove_reader(alive_fd)
            want(False)

    loop.add_signal_handler(signal.SIGTERM, want, True)
    loop.add_signal_handler(signal.SIGQUIT, want, False)
    loop.add_reader(alive_fd, supervisor_spoke)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return wish

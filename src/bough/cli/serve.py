"""`bough serve`: the control process, which the supervisor starts and watches.

SIGTERM stops the platform and its computes. SIGQUIT, or the death of the supervisor, stops the platform and leaves
the computes running.
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

MAX_OPEN_FILES = 65536  # open files that control may have


@dataclass(frozen=True, slots=True)
class InheritedFds:
    """Descriptors that the supervisor passed to this process."""

    ready: int
    alive: int
    api: tuple[int, ...]


def serve(
    *,
    ready_fd: Annotated[int, typer.Option(help="Pipe to report readiness to.")],
    alive_fd: Annotated[int, typer.Option(help="Pipe that closes when the supervisor dies.")],
    api_fd: Annotated[list[int], typer.Option(help="A listening socket of the API.")],
    home: options.Home = None,
    api_port: options.ApiPort = None,
    gateway_port: options.GatewayPort = None,
    domain: options.Domain = None,
    storage: options.Storage = None,
) -> None:
    """Run the control process; `bough up` does this for you."""
    flags = options.collect_flags(home, api_port, gateway_port, domain, storage)
    try:
        _serve(config.load_settings(flags), InheritedFds(ready_fd, alive_fd, tuple(api_fd)))
    except PlatformError as error:
        readiness.report_error(ready_fd, error.public_message)
        raise


def _serve(settings: config.Settings, inherited: InheritedFds) -> None:
    log.configure(settings.log_level, settings.log_file)
    if lock.acquire(lock.control_lock_file(settings), timeout=home_lock.OLD_CONTROL_TIMEOUT) is None:
        raise Unavailable("Another control process is still running in this home.")
    _raise_file_limit()
    import uvloop  # noqa: PLC0415 - neither `serve --help` nor an early error needs it

    try:
        uvloop.run(_run_until_stopped(settings, inherited))
    except OSError as error:
        log.get_logger().exception("control_failed")
        raise Unavailable(f"The control process failed: {error}.") from error


def _raise_file_limit() -> None:
    """Control keeps a pidfd open for each running compute."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


async def _run_until_stopped(settings: config.Settings, inherited: InheritedFds) -> None:
    # Almost everything allocated during the start stays alive: collecting garbage in it takes a quarter of the time.
    gc.disable()
    from bough import app  # noqa: PLC0415 - the whole platform; a second to import

    def on_ready() -> None:
        gc.freeze()
        gc.enable()
        readiness.report_ready(inherited.ready)

    await app.serve(settings, ready=on_ready, stopping=_stop_request(inherited.alive), api_listeners=inherited.api)


def _stop_request(alive_fd: int) -> asyncio.Future[bool]:
    """Resolve when the process must stop: True to stop computes too, False to leave them running."""
    loop = asyncio.get_running_loop()
    request: asyncio.Future[bool] = loop.create_future()

    def stop(with_computes: bool) -> None:
        if not request.done():
            request.set_result(with_computes)

    def on_alive_pipe() -> None:
        if not os.read(alive_fd, 1):
            loop.remove_reader(alive_fd)
            stop(False)

    loop.add_signal_handler(signal.SIGTERM, stop, True)
    loop.add_signal_handler(signal.SIGQUIT, stop, False)
    loop.add_reader(alive_fd, on_alive_pipe)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    return request

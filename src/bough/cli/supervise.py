"""`bough supervise`: the supervisor, as it goes on after a restart.

`up` has checked the machine and taken the home's lock. A restart replaces the program by itself as
it is now; the open lock file is inherited, so both the lock and the pid are kept, and so are the
sockets that clients come by: whoever connects meanwhile waits, and is not refused.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Annotated

import typer

from bough import config, log
from bough.cli import options, orphaned_computes, output
from bough.control.platform import hostnames
from bough.errors import PlatformError
from bough.supervisor import lock, readiness, state
from bough.supervisor.handoff import SupervisorHandoff
from bough.supervisor.platform import SupervisedPlatform
from bough.supervisor.processes import bough_command
from bough.supervisor.supervisor import HANDLED_SIGNALS, ShutdownMode


def supervise(
    *,
    lock_fd: Annotated[int, typer.Option(help="The home's lock, held.")],
    inherited: Annotated[str | None, typer.Option(help="Sockets and workers of the program before.")] = None,
    home: options.Home = None,
    api_port: options.ApiPort = None,
    gateway_port: options.GatewayPort = None,
    domain: options.Domain = None,
    storage: options.Storage = None,
) -> None:
    """Run the supervisor; `bough up` does this for you."""
    flags = {
        "home": home,
        "api_port": api_port,
        "gateway_port": gateway_port,
        "domain": domain,
        "storage": storage,
    }
    given = SupervisorHandoff.from_json(inherited) if inherited else None
    run_supervisor(flags, lock_fd, lambda: output.print_note("Bough is ready again."), given)


def run_and_report(flags: options.Flags, lock_fd: int, ready_fd: int) -> None:
    """Supervise for somebody who waits to hear that the platform is ready, or why not."""
    try:
        run_supervisor(flags, lock_fd, lambda: readiness.report_ready(ready_fd))
    except PlatformError as error:
        readiness.report_error(ready_fd, error.public_message)
        raise


def run_supervisor(
    flags: options.Flags, lock_fd: int, on_ready: Callable[[], None], handoff: SupervisorHandoff | None = None
) -> None:
    """Supervise until a signal ends it; a restart replaces this process and does not return."""
    settings = config.load_settings(flags)
    flags = {**flags, "home": settings.home}
    os.set_inheritable(lock_fd, False)
    lock.write_pid(lock_fd)
    log.configure(settings.log_level, settings.log_file)
    try:
        watch = SupervisedPlatform(settings, flags, handoff)
        ending = asyncio.run(watch.run(on_ready))
    except PlatformError as error:
        state.write_failure(settings, error.public_message)
        log.get_logger().error("the platform could not start", reason=error.public_message)
        raise
    if ending is ShutdownMode.RESTART:
        _exec_next_program(flags, lock_fd, watch.make_handoff())
    watch.close()
    if ending is ShutdownMode.DOWN:
        orphaned_computes.stop_all(settings)
        hostnames.remove_all(settings)
    os.close(lock_fd)


def _exec_next_program(flags: options.Flags, lock_fd: int, left: SupervisorHandoff) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)  # until the next supervisor listens
    os.set_inheritable(lock_fd, True)
    ours = ("--lock-fd", str(lock_fd), "--inherited", left.to_json())
    command = bough_command("supervise", *ours, *options.to_arguments(flags))
    os.execv(command[0], command)  # noqa: S606 - no shell is what we want

"""Runs the supervisor from start to end, and replaces its program at a restart.

The caller has checked the machine and locked the home. A restart executes the installed program in the same
process: it inherits the lock, the pid and the listening sockets, so clients that connect meanwhile wait and are not
refused.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from bough import config, log
from bough.config import Settings
from bough.errors import PlatformError
from bough.supervisor import lock, readiness, state
from bough.supervisor.flags import Flags, to_arguments
from bough.supervisor.handoff import SupervisorHandoff
from bough.supervisor.platform import SupervisedPlatform
from bough.supervisor.processes import bough_command
from bough.supervisor.supervisor import HANDLED_SIGNALS, ShutdownMode


@dataclass(frozen=True, slots=True)
class Callbacks:
    report: Callable[[str], None]  # prints a message for the operator
    on_down: Callable[[Settings], None]  # cleans up when the platform stops with its computes


def run_and_report(flags: Flags, lock_fd: int, ready_fd: int, callbacks: Callbacks) -> None:
    """Run the supervisor, and report to a waiting process that the platform is ready or why it is not."""
    try:
        run_supervisor(flags, lock_fd, lambda: readiness.report_ready(ready_fd), callbacks)
    except PlatformError as error:
        readiness.report_error(ready_fd, error.public_message)
        raise


def run_supervisor(
    flags: Flags,
    lock_fd: int,
    on_ready: Callable[[], None],
    callbacks: Callbacks,
    handoff: SupervisorHandoff | None = None,
) -> None:
    """Supervise until a signal ends it; a restart replaces this process and does not return."""
    settings = config.load_settings(flags)
    flags = {**flags, "home": settings.home}
    os.set_inheritable(lock_fd, False)
    lock.write_pid(lock_fd)
    log.configure(settings.log_level, settings.log_file)
    try:
        platform = SupervisedPlatform(settings, flags, callbacks.report, handoff)
        mode = asyncio.run(platform.run(on_ready))
    except PlatformError as error:
        state.write_failure(settings, error.public_message)
        log.get_logger().error("platform_start_failed", reason=error.public_message)
        raise
    if mode is ShutdownMode.RESTART:
        _exec_next_program(flags, lock_fd, platform.make_handoff())
    platform.close()
    if mode is ShutdownMode.DOWN:
        callbacks.on_down(settings)  # while we still hold the lock of the home
    os.close(lock_fd)


def _exec_next_program(flags: Flags, lock_fd: int, handoff: SupervisorHandoff) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)  # until the next supervisor handles them
    os.set_inheritable(lock_fd, True)
    # The next version of Bough parses these arguments: they must not change.
    inherited = ("--lock-fd", str(lock_fd), "--inherited", handoff.to_json())
    command = bough_command("supervise", *inherited, *to_arguments(flags))
    os.execv(command[0], command)  # noqa: S606 - no shell is what we want

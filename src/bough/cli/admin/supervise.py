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
from bough.cli import output
from bough.cli.admin import handshake, leftovers, lock, options, state
from bough.cli.admin.child import own_command
from bough.cli.admin.inheritance import Inheritance
from bough.cli.admin.supervisor import WATCHED, Ending
from bough.cli.admin.watch import Watch
from bough.control import names
from bough.errors import PlatformError


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
    given = Inheritance.read(inherited) if inherited else None
    run(flags, lock_fd, lambda: output.note("Bough is ready again."), given)


def run_and_tell(flags: options.Flags, lock_fd: int, ready_fd: int) -> None:
    """Supervise for somebody who waits to hear that the platform is ready, or why not."""
    try:
        run(flags, lock_fd, lambda: handshake.tell_ready(ready_fd))
    except PlatformError as error:
        handshake.tell_error(ready_fd, error.public)
        raise


def run(flags: options.Flags, lock_fd: int, ready: Callable[[], None], given: Inheritance | None = None) -> None:
    """Supervise until a signal ends it; a restart replaces this process and does not return."""
    settings = config.load(flags)
    flags = {**flags, "home": settings.home}
    os.set_inheritable(lock_fd, False)
    lock.sign(lock_fd)
    log.configure(settings.log_level, settings.log_file)
    try:
        watch = Watch(settings, flags, given)
        ending = asyncio.run(watch.until_ended(ready))
    except PlatformError as error:
        state.write_failure(settings, error.public)
        log.get().error("the platform could not start", reason=error.public)
        raise
    if ending is Ending.RESTART:
        _replace_ourselves(flags, lock_fd, watch.inheritance())
    watch.close()
    if ending is Ending.DOWN:
        leftovers.stop(settings)
        names.withdraw(settings)
    os.close(lock_fd)


def _replace_ourselves(flags: options.Flags, lock_fd: int, left: Inheritance) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)  # until the next supervisor listens
    os.set_inheritable(lock_fd, True)
    ours = ("--lock-fd", str(lock_fd), "--inherited", left.left())
    command = own_command("supervise", *ours, *options.as_arguments(flags))
    os.execv(command[0], command)  # noqa: S606 - no shell is what we want

"""`bough up`: checks the machine, downloads Postgres, starts the platform and prints where it runs."""

import sys
from functools import partial
from typing import Annotated

import typer

from bough import config
from bough.cli import options, output, postgres_install, startup_message
from bough.cli.doctor import checks
from bough.cli.storage import first_start
from bough.cli.supervise import supervisor_callbacks
from bough.supervisor import daemon, home_lock, lifecycle, ports, sd_notify
from bough.supervisor.addresses import ApiAddress


def up(
    *,
    home: options.Home = None,
    api_port: options.ApiPort = None,
    gateway_port: options.GatewayPort = None,
    domain: options.Domain = None,
    storage: options.Storage = None,
    json: options.Json = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; return when the platform is ready.")
    ] = False,
) -> None:
    """Start the platform.

    The first start downloads Postgres. When the platform is ready, this command prints its address
    and the operator's API key. Ctrl-C stops the platform and its computes.
    """
    flags = options.collect_flags(home, api_port, gateway_port, domain, storage)
    settings = config.load_settings(flags)
    flags = {**flags, "home": settings.home}
    checks.require_passing(settings)
    lock_fd = home_lock.acquire(settings)
    current_ports = ports.resolve(settings)
    postgres_install.ensure_installed(settings, show_progress=sys.stderr.isatty())
    first_start.ensure_storage_chosen(settings, show_progress=sys.stderr.isatty())
    on_ready = partial(startup_message.show, settings, current_ports, json=json, detached=detach)
    ready_fd = daemon.detach(settings.logs / "supervisor.log", lock_fd) if detach else None
    if ready_fd is not None:
        lifecycle.run_and_report(flags, lock_fd, ready_fd, supervisor_callbacks())
        return
    if detach:
        on_ready()
        return
    if sd_notify.is_requested():
        url = ApiAddress(settings.listen, current_ports.api_port).base_url
        on_ready = partial(sd_notify.notify_ready, url, output.print_note)
    lifecycle.run_supervisor(flags, lock_fd, on_ready, supervisor_callbacks())

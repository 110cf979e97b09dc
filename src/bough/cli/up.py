"""`bough up`: check the machine, fetch Postgres, start the platform, say where it is."""

import sys
from functools import partial
from typing import Annotated

import typer

from bough import config
from bough.cli import options, postgres_install, startup_message, supervise
from bough.cli.doctor import checks
from bough.supervisor import daemon, home_lock, ports, sd_notify
from bough.supervisor.addresses import ApiAddress


def up(
    *,
    home: options.Home = None,
    api_port: options.ApiPort = None,
    gateway_port: options.GatewayPort = None,
    domain: options.Domain = None,
    storage: options.Storage = None,
    json: options.Json = False,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background; return when ready.")] = False,
) -> None:
    """Start the platform.

    The first start fetches Postgres. When the platform is ready its address and the operator's key
    are printed. Ctrl-C stops it, together with its computes.
    """
    flags: options.Flags = {
        "home": home,
        "api_port": api_port,
        "gateway_port": gateway_port,
        "domain": domain,
        "storage": storage,
    }
    settings = config.load_settings(flags)
    flags = {**flags, "home": settings.home}
    checks.require_passing(settings)
    lock_fd = home_lock.acquire(settings)
    ports_now = ports.resolve(settings)
    postgres_install.ensure_installed(settings, show_progress=sys.stderr.isatty())
    ready = partial(startup_message.show, settings, ports_now, json=json, detached=detach)
    ready_fd = daemon.detach(settings.logs / "supervisor.log", lock_fd) if detach else None
    if ready_fd is not None:
        supervise.run_and_report(flags, lock_fd, ready_fd)
    elif detach:
        ready()
    elif sd_notify.is_requested():
        supervise.run_supervisor(
            flags, lock_fd, partial(sd_notify.notify_ready, ApiAddress(settings.listen, ports_now.api_port).base_url)
        )
    else:
        supervise.run_supervisor(flags, lock_fd, ready)

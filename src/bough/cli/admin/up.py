"""`bough up`: check the machine, fetch Postgres, start the platform, say where it is."""

import sys
from functools import partial
from typing import Annotated

import typer

from bough import config
from bough.cli.admin import background, checks, homes, notify, options, ports, prepare, supervise, welcome
from bough.cli.admin.addresses import Addresses


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
    settings = config.load(flags)
    flags = {**flags, "home": settings.home}
    checks.require(settings)
    lock_fd = homes.hold(settings)
    ports_now = ports.resolve(settings)
    prepare.ensure_postgres(settings, show_progress=sys.stderr.isatty())
    ready = partial(welcome.show, settings, ports_now, json=json, detached=detach)
    ready_fd = background.detach(settings.logs / "supervisor.log", lock_fd) if detach else None
    if ready_fd is not None:
        supervise.run_and_tell(flags, lock_fd, ready_fd)
    elif detach:
        ready()
    elif notify.is_awaited():
        supervise.run(flags, lock_fd, partial(notify.tell_ready, Addresses(settings.listen, ports_now.api_port).root))
    else:
        supervise.run(flags, lock_fd, ready)

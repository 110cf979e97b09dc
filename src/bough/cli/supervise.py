"""`bough supervise`: the supervisor as `bough restart` continues it."""

from typing import Annotated

import typer

from bough.cli import options, orphaned_computes, output
from bough.config import Settings
from bough.control.platform import hostnames
from bough.supervisor import lifecycle
from bough.supervisor.handoff import SupervisorHandoff


def supervise(
    *,
    lock_fd: Annotated[int, typer.Option(help="Descriptor of the home's lock file, which is locked.")],
    inherited: Annotated[str | None, typer.Option(help="Sockets and workers of the previous program.")] = None,
    home: options.Home = None,
    api_port: options.ApiPort = None,
    gateway_port: options.GatewayPort = None,
    domain: options.Domain = None,
    storage: options.Storage = None,
) -> None:
    """Run the supervisor; `bough up` does this for you."""
    flags = options.collect_flags(home, api_port, gateway_port, domain, storage)
    handoff = SupervisorHandoff.from_json(inherited) if inherited else None
    lifecycle.run_supervisor(
        flags, lock_fd, lambda: output.print_note("Bough is ready again."), supervisor_callbacks(), handoff
    )


def supervisor_callbacks() -> lifecycle.Callbacks:
    return lifecycle.Callbacks(report=output.print_note, on_down=_clean_up)


def _clean_up(settings: Settings) -> None:
    orphaned_computes.stop_all(settings)
    hostnames.remove_all(settings)

"""`bough extensions remove`."""

from typing import Annotated

import typer

from bough import config
from bough.cli import options, output
from bough.cli.extensions import requests
from bough.engine.local.installs import extension_requests


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Extension that was added.")],
    *,
    home: options.Home = None,
    project: options.Project = None,
    restart: options.RestartComputes = False,
    ignore_unknown: options.IgnoreUnknown = False,
    json: options.Json = False,
) -> None:
    """Remove an extension that was added.

    An extension that a database uses cannot be removed. Computes run without it from their next start.
    """
    settings = config.load_settings({"home": home})
    changes = requests.run(
        settings,
        project,
        lambda request: extension_requests.remove(request, name),
        ignores_unknown=ignore_unknown,
    )
    computes = requests.restart_or_count(settings, project, restart=restart)
    command = f"extensions remove {name} --restart" + (f" --project {project}" if project else "")
    requests.show(changes, f"Removed {name}", computes, output.format_command(command, settings.home), json=json)

"""`bough extensions add`."""

from pathlib import Path
from typing import Annotated

import typer

from bough import config
from bough.cli import options, output
from bough.cli.extensions import requests
from bough.engine.local.installs import extension_requests


def add(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Extension of the catalog, or the path of a .deb or folder.")
    ],
    *,
    home: options.Home = None,
    project: options.Project = None,
    restart: options.RestartComputes = False,
    json: options.Json = False,
) -> None:
    """Add an extension to the build of all projects, or of one.

    A new build is made with the packages of the present one and those of the extension. Computes can
    create the extension from their next start. A path such as ./my-extension.deb or ./my-extension adds
    an extension of your own: a package, or a folder with its control file, scripts and library.
    """
    settings = config.load_settings({"home": home})
    path = Path(name)
    is_path = "/" in name or path.suffix == ".deb"
    changes = requests.run(
        settings,
        project,
        lambda request: extension_requests.add_own(request, path) if is_path else extension_requests.add(request, name),
    )
    computes = requests.restart_or_count(settings, project, restart=restart)
    command = f"extensions add {name} --restart" + (f" --project {project}" if project else "")
    requests.show(changes, f"Added {name}", computes, output.format_command(command, settings.home), json=json)

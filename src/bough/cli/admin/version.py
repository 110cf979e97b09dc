"""`bough version`."""

import platform

from bough import __version__
from bough.cli import output
from bough.cli.admin.options import Json


def version(json: Json = False) -> None:
    """Show the version."""
    if json:
        output.show_json({"version": __version__, "python": platform.python_version(), "machine": platform.machine()})
    else:
        output.say(f"bough {__version__} (Python {platform.python_version()}, {platform.machine()})")

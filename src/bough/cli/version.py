"""`bough version`."""

import platform

from bough import __version__
from bough.cli import output
from bough.cli.options import Json


def version(json: Json = False) -> None:
    """Show the version."""
    if json:
        output.print_json({"version": __version__, "python": platform.python_version(), "machine": platform.machine()})
    else:
        output.print_text(f"bough {__version__} (Python {platform.python_version()}, {platform.machine()})")

"""`bough postgres rollback`."""

from typing import Annotated

import typer

from bough import config
from bough.cli import options, output
from bough.cli.postgres import builds, use_check
from bough.engine.local.installs import update as installs_update


def rollback(
    major: Annotated[int, typer.Argument(metavar="MAJOR", help="Major version of Postgres, such as 17.")],
    home: options.Home = None,
    ignore_unknown: options.IgnoreUnknown = False,
    json: options.Json = False,
) -> None:
    """Go back to the build before the last update.

    Computes use it from their next start. The older build lacks security fixes, so this is meant for
    the time until a problem of the newer one is solved. It must have all extensions that are in use.
    """
    settings = config.load_settings({"home": home})
    changes = installs_update.roll_back(settings, major, use_check.make(settings, ignores_unknown=ignore_unknown))
    is_running = builds.wait_until_followed(settings, changes)
    if json:
        output.print_json({"changes": [builds.to_fields(change) for change in changes]})
        return
    for change in changes:
        output.print_text(builds.describe_change(change))
    if not is_running:
        output.print_text("The platform is not running; it uses the earlier builds from its next start.")

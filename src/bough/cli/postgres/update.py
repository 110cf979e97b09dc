"""`bough postgres update`."""

import sys
import textwrap
from typing import Annotated

import typer

from bough import config
from bough.cli import options, output, progress
from bough.cli.postgres import builds
from bough.engine.local.installs import update as installs_update
from bough.engine.local.installs.update import BuildChange
from bough.supervisor import state

_WIDTH = 100


def update(
    home: options.Home = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the computes that run older builds, one after another.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Download the newest minor versions and use them.

    Computes use a new build from their next start. `bough postgres rollback` goes one step back.
    If anything fails before the end, nothing changes.
    """
    settings = config.load_settings({"home": home})
    with progress.display(bars=sys.stderr.isatty()) as report:
        changes = installs_update.update(settings, report)
    is_running = builds.wait_until_followed(settings, changes)
    outdated = builds.fetch_builds(settings) if is_running else []
    waiting = sum(len(each["outdated_computes"]) for each in outdated)
    restarted = builds.restart_outdated(settings, outdated) if restart else 0
    if json:
        output.print_json(
            {"changes": [builds.to_fields(change) for change in changes], "restarted": restarted, "outdated": waiting}
        )
        return
    _show(settings, changes, restarted=restarted, waiting=waiting - restarted)


def _show(settings: config.Settings, changes: list[BuildChange], *, restarted: int, waiting: int) -> None:
    if not changes:
        output.print_text("Everything is up to date.")
    for change in changes:
        output.print_text(builds.describe_change(change))
    fixed = sorted({cve for change in changes for cve in change.fixed_cves}, key=lambda cve: (len(cve), cve))
    if fixed:
        text = f"Fixed since then, {len(fixed)} vulnerabilities: {', '.join(fixed)}"
        output.print_text(textwrap.fill(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    if restarted:
        output.print_text(f"Restarted {restarted} computes.")
    if waiting:
        command = output.format_command("postgres update --restart", settings.home)
        output.print_text(f"{waiting} computes run older builds until their next start; `{command}` restarts them.")
    if changes and state.read_running(settings) is None:
        output.print_text("The platform is not running; it uses the new builds from its next start.")

"""`bough postgres update`."""

import sys
import textwrap

from bough import config
from bough.cli import options, output, progress
from bough.cli.postgres import builds, use_check
from bough.engine.local.installs import update as installs_update
from bough.engine.local.installs.update import BuildChange
from bough.supervisor import state

_WIDTH = 100


def update(
    home: options.Home = None,
    now: options.RestartNow = False,
    ignore_unknown: options.IgnoreUnknown = False,
    json: options.Json = False,
) -> None:
    """Download the newest minor versions and use them.

    Computes use a new build from their next start, and are restarted in the maintenance windows of
    their projects; --now does it at once. `bough postgres rollback` goes one step back.
    If anything fails before the end, nothing changes.
    """
    settings = config.load_settings({"home": home})
    with progress.display(bars=sys.stderr.isatty()) as report:
        changes = installs_update.update(settings, report, use_check.make(settings, ignores_unknown=ignore_unknown))
    builds.wait_until_followed(settings, changes)
    waiting = builds.list_outdated(settings)
    restarted = builds.restart_now(settings) if now else 0
    if json:
        output.print_json(
            {
                "changes": [builds.to_fields(change) for change in changes],
                "restarted": restarted,
                "outdated": len(waiting),
            }
        )
        return
    _show(settings, changes, restarted=restarted, waiting=max(0, len(waiting) - restarted))


def _show(settings: config.Settings, changes: list[BuildChange], *, restarted: int, waiting: int) -> None:
    if not changes:
        output.print_text("Everything is up to date.")
    for change in changes:
        output.print_text(builds.describe_change(change))
    fixed = sorted({cve for change in changes for cve in change.fixed_cves}, key=lambda cve: (len(cve), cve))
    if fixed:
        text = f"Fixed since then, {len(fixed)} vulnerabilities: {', '.join(fixed)}"
        output.print_text(textwrap.fill(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    command = output.format_command("postgres update --now", settings.home)
    builds.print_restarts(command, restarted=restarted, waiting=waiting)
    if changes and state.read_running(settings) is None:
        output.print_text("The platform is not running; it uses the new builds from its next start.")

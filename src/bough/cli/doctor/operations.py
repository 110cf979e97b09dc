"""Checks whether the running platform has set operations aside because a step ended the control process."""

from bough.cli import api_client, output
from bough.cli.doctor.finding import Finding, ok, warning
from bough.config import Settings
from bough.supervisor import state

NAME = "operations"


def check_operations(settings: Settings) -> Finding:
    running = state.read_running(settings)
    health = api_client.fetch_health(running.api_address) if running else None
    if health is None:
        return ok(NAME, "not checked, because the platform is not running")
    count = health.get("operations_set_aside", 0)
    if not count:
        return ok(NAME, "none is set aside")
    subject = f"{count} operations are" if count > 1 else "An operation is"
    logs, restart = output.format_command("logs", settings.home), output.format_command("restart", settings.home)
    return warning(
        NAME,
        f"{subject} set aside: a step ended the control process several times, or this version cannot read it.",
        f"`{logs}` shows operation_set_aside with the step; after you remove the cause, retry with `{restart}` "
        "(docs/runbooks/operation-is-set-aside.md)",
    )

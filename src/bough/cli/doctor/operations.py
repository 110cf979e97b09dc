"""Whether operations of a running platform were set aside, because their step ended the control process."""

from bough.cli import health, output
from bough.cli.doctor.finding import Finding, ok, warning
from bough.config import Settings
from bough.supervisor import state
from bough.supervisor.addresses import ApiAddress

NAME = "operations"


def check_operations(settings: Settings) -> Finding:
    seen = state.read_running(settings)
    told = health.fetch_health(ApiAddress(seen.listen, seen.api_port)) if seen else None
    if told is None:
        return ok(NAME, "the platform does not run, so none is asked for")
    count = told.get("operations_set_aside", 0)
    if not count:
        return ok(NAME, "none is set aside")
    many = f"{count} operations are" if count > 1 else "An operation is"
    log, restart = output.format_command("logs", settings.home), output.format_command("restart", settings.home)
    return warning(
        NAME,
        f"{many} set aside: a step ended the control process several times",
        f"`{log}` shows operation_set_aside with the step; when the cause is removed, `{restart}` tries again "
        "(docs/runbooks/operation-is-set-aside.md)",
    )

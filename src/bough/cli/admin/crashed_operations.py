"""Whether operations of a running platform were set aside, because their step ended the control process."""

from bough.cli import output
from bough.cli.admin import health, state
from bough.cli.admin.addresses import Addresses
from bough.cli.admin.finding import Finding, fine, warning
from bough.config import Settings

NAME = "operations"


def set_aside(settings: Settings) -> Finding:
    seen = state.running(settings)
    told = health.ask(Addresses(seen.listen, seen.api_port)) if seen else None
    if told is None:
        return fine(NAME, "the platform does not run, so none is asked for")
    count = told.get("operations_set_aside", 0)
    if not count:
        return fine(NAME, "none is set aside")
    many = f"{count} operations are" if count > 1 else "An operation is"
    log, restart = output.our_command("logs", settings.home), output.our_command("restart", settings.home)
    return warning(
        NAME,
        f"{many} set aside: a step ended the control process several times",
        f"`{log}` shows operation_set_aside with the step; when the cause is removed, `{restart}` tries again "
        "(docs/runbooks/operation-is-set-aside.md)",
    )

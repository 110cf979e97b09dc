"""What must be true of this machine before the platform starts.

Each check looks at one thing and suggests a fix. `bough up` stops at the first check that fails; `bough doctor` shows
all of them.
"""

from collections.abc import Callable

from bough.cli import output
from bough.cli.doctor import builds, connectivity, folders, machine
from bough.cli.doctor.finding import Finding, Verdict
from bough.config import Settings
from bough.errors import PreconditionFailed

# The order matters: a later check may rely on what an earlier one found.
CHECKS: tuple[Callable[[Settings], Finding], ...] = (
    machine.check_python,
    machine.check_user,
    machine.check_isolation,
    machine.check_gateway_user,
    machine.check_limits,
    machine.check_confinement,
    folders.check_home,
    folders.check_cache,
    folders.check_instance,
    folders.check_permissions,
    folders.check_storage,
    folders.check_space,
    builds.check_postgres,
    builds.check_time_zones,
    machine.check_ports,
    connectivity.check_certificate,
    connectivity.check_hostnames,
)


def require_passing(settings: Settings) -> None:
    """Raise the message of the first failed check; print the warnings if none fails."""
    warnings = []
    for check in CHECKS:
        finding = check(settings)
        if finding.verdict is Verdict.FAILED:
            raise PreconditionFailed(_format_failure(finding))
        if finding.verdict is Verdict.WARNING:
            warnings.append(finding.message)
    for warning in warnings:
        output.print_note(f"{output.colorize('warning')}: {warning}")


def _format_failure(finding: Finding) -> str:
    return f"{finding.message}\n       Fix: {finding.fix}" if finding.fix else finding.message

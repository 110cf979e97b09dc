"""What must be true of this machine before the platform starts.

Each check looks at one thing and says what mends it. `up` refuses at the first that failed;
`doctor` shows them all.
"""

from collections.abc import Callable

from bough.cli import output
from bough.cli.admin import entrance, folders, machine
from bough.cli.admin.finding import Finding, Verdict
from bough.config import Settings
from bough.errors import PreconditionFailed

# In this order: a later check may rely on what an earlier one found.
CHECKS: tuple[Callable[[Settings], Finding], ...] = (
    machine.python,
    machine.user,
    machine.isolation,
    machine.gateway,
    machine.limits,
    machine.confinement,
    folders.home,
    folders.cache,
    folders.instance,
    folders.open_ways,
    folders.storage,
    folders.space,
    machine.postgres,
    machine.free_ports,
    entrance.certificate,
    entrance.names,
)


def require(settings: Settings) -> None:
    """Raise the sentence of the first failed check; remark on warnings when all is well."""
    warnings = []
    for check in CHECKS:
        finding = check(settings)
        if finding.verdict is Verdict.FAILED:
            raise PreconditionFailed(_with_mend(finding))
        if finding.verdict is Verdict.WARNING:
            warnings.append(finding.sentence)
    for sentence in warnings:
        output.note(f"{output.paint('warning')}: {sentence}")


def _with_mend(finding: Finding) -> str:
    return f"{finding.sentence}\n       This mends it: {finding.mend}" if finding.mend else finding.sentence

"""`bough doctor`."""

import typer

from bough import config
from bough.cli import options, output
from bough.cli.doctor import checks, maintenance, operations, wal_archiving
from bough.cli.doctor.finding import Finding, Verdict, ok
from bough.supervisor import state


def doctor(home: options.Home = None, json: options.Json = False) -> None:
    """Check this machine and suggest fixes.

    Each line is a check with its result: ok, warning (the platform runs with limitations) or failed
    (the platform cannot start). Exits with status 1 when a check failed.
    """
    settings = config.load_settings({"home": home})
    all_checks = (
        *checks.CHECKS,
        wal_archiving.check_archiving,
        operations.check_operations,
        maintenance.check_maintenance,
    )
    findings = [_accept_running_platform(settings, check(settings)) for check in all_checks]
    if json:
        output.print_json([finding.to_json() for finding in findings])
    else:
        _show(findings)
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(1)


def _accept_running_platform(settings: config.Settings, finding: Finding) -> Finding:
    """A platform that runs in this home is what the operator asks about, not a conflict."""
    running = state.read_running(settings)
    if finding.name == "instance" and running:
        return ok("instance", f"the platform is running (pid {running.pid})")
    return finding


def _show(findings: list[Finding]) -> None:
    rows: list[tuple[str, str, str]] = []
    for finding in findings:
        rows.append((finding.verdict.value, finding.name, finding.message))
        if finding.fix:
            rows.append(("", "", f"Fix: {finding.fix}"))
    output.print_table(rows)

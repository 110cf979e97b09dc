"""`bough doctor`."""

import dataclasses

import typer

from bough import config
from bough.cli import options, output
from bough.cli.doctor import checks, operations, wal_archiving
from bough.cli.doctor.finding import Finding, Verdict, ok
from bough.supervisor import state


def doctor(home: options.Home = None, json: options.Json = False) -> None:
    """Check this machine, and say what mends it.

    Every line is a check: ok, warning (the platform runs, with less than it could offer) or failed
    (the platform cannot start). Exits with 1 when something failed.
    """
    settings = config.load_settings({"home": home})
    every_check = (*checks.CHECKS, wal_archiving.check_archiving, operations.check_operations)
    findings = [_accept_running_platform(settings, check(settings)) for check in every_check]
    if json:
        output.print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        _show(findings)
    if any(finding.verdict is Verdict.FAILED for finding in findings):
        raise typer.Exit(1)


def _accept_running_platform(settings: config.Settings, finding: Finding) -> Finding:
    """A platform that runs in this home is what the doctor was asked about, not an intruder."""
    running = state.read_running(settings)
    if finding.name == "instance" and running:
        return ok("instance", f"the platform runs (pid {running.pid})")
    return finding


def _show(findings: list[Finding]) -> None:
    rows: list[tuple[str, str, str]] = []
    for finding in findings:
        rows.append((finding.verdict.value, finding.name, finding.sentence))
        if finding.mend:
            rows.append(("", "", f"this mends it: {finding.mend}"))
    output.print_table(rows)

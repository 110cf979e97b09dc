"""Checks which branches' WAL is not archived, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from bough import byte_sizes
from bough.cli import output
from bough.cli.doctor.finding import Finding, ok, warning
from bough.cli.storage import volume_uses
from bough.config import Settings
from bough.control.platform import history_problems
from bough.engine.local.computes.runs import ComputeRuns
from bough.engine.local.folders import Folders
from bough.engine.local.history.volume_history import measure_unarchived_wal
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.store.volume_uses import VolumeUse

MAX_LISTED = 5  # volumes that the message names


@dataclass(frozen=True, slots=True)
class _Backlog:
    waiting_bytes: int
    branch_id: str | None
    project_id: str | None
    reason: str


def check_archiving(settings: Settings) -> Finding:
    """Use the problems that the platform recorded, and the files on disk in case it is not running."""
    try:
        folders = Folders(settings)
        backlogs = _find_backlogs(settings, folders)
    except (EngineError, OSError) as error:
        return warning("history", f"Cannot determine which WAL waits to be archived: {error}")
    if not backlogs:
        return ok("history", "WAL archiving keeps up")
    uses = volume_uses.read_volume_uses(settings)
    largest_first = sorted(backlogs, key=lambda volume: backlogs[volume].waiting_bytes, reverse=True)
    messages = [_describe(backlogs[volume], uses.get(volume)) for volume in largest_first[:MAX_LISTED]]
    if len(largest_first) > MAX_LISTED:
        messages.append(f"{len(largest_first) - MAX_LISTED} more are behind.")
    return warning("history", " ".join(messages), _fix(settings, folders, largest_first[0]))


def _find_backlogs(settings: Settings, folders: Folders) -> Mapping[VolumeId, _Backlog]:
    recorded = {VolumeId(problem.volume_id): problem for problem in history_problems.read(settings)}
    on_disk = {
        volume: _Backlog(size, None, None, "It waits for a compute that archives it.")
        for volume, size in measure_unarchived_wal(folders).items()
        if size >= settings.history_alarm_bytes
    }
    return on_disk | {
        volume: _Backlog(problem.waiting_bytes, problem.branch_id, problem.project_id, problem.trouble)
        for volume, problem in recorded.items()
    }


def _describe(backlog: _Backlog, use: VolumeUse | None) -> str:
    if use is not None:
        branch = f"branch {use.branch_name} ({use.branch_id}) of project {use.project_name} ({use.project_id})"
    else:
        branch = f"branch {backlog.branch_id or '?'} of project {backlog.project_id or '?'}"
    amount = f"{byte_sizes.format_mb_or_gb(backlog.waiting_bytes)} " if backlog.waiting_bytes else ""
    return f"WAL archiving of {branch} is {amount}behind: {backlog.reason}"


def _fix(settings: Settings, folders: Folders, volume: VolumeId) -> str:
    """The log of the volume's server says most; the runbook covers the rest."""
    endpoints = {run.volume_id: run.endpoint_id for run in ComputeRuns(folders.runs).list_all()}
    logs = f"logs {endpoints[volume]} -n 100" if volume in endpoints else "logs -n 200"
    return f"{output.format_command(logs, settings.home)}  # then docs/runbooks/archiving-fails.md"

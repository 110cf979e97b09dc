"""The check of what is kept to go back to: whose WAL is not archived, why, and what to type."""

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
from bough.engine.local.history.wal_archives import measure_unarchived
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.store.volume_uses import VolumeUse

MAX_LISTED = 5  # of those in trouble, at most


@dataclass(frozen=True, slots=True)
class _Behind:
    waiting_bytes: int
    branch_id: str | None
    project_id: str | None
    reason: str


def check_archiving(settings: Settings) -> Finding:
    """By what the platform noted last, and by what waits on the disk, which also tells when it does not run."""
    try:
        folders = Folders(settings)
        behind = _behind(settings, folders)
    except (EngineError, OSError) as error:
        return warning("history", f"What waits to be archived is not known: {error}")
    if not behind:
        return ok("history", "archiving keeps up")
    uses = volume_uses.read_volume_uses(settings)
    worst = sorted(behind, key=lambda volume: behind[volume].waiting_bytes, reverse=True)
    sentences = [_sentence(behind[volume], uses.get(volume)) for volume in worst[:MAX_LISTED]]
    if len(worst) > MAX_LISTED:
        sentences.append(f"So it is with {len(worst) - MAX_LISTED} more.")
    return warning("history", " ".join(sentences), _fix(settings, folders, worst[0]))


def _behind(settings: Settings, folders: Folders) -> Mapping[VolumeId, _Behind]:
    noted = {VolumeId(note.volume_id): note for note in history_problems.read(settings)}
    found = {
        volume: _Behind(size, None, None, "It waits for a compute that archives it.")
        for volume, size in measure_unarchived(folders).items()
        if size >= settings.history_alarm_bytes
    }
    return found | {
        volume: _Behind(note.waiting_bytes, note.branch_id, note.project_id, note.trouble)
        for volume, note in noted.items()
    }


def _sentence(behind: _Behind, use: VolumeUse | None) -> str:
    waits = (
        f", {byte_sizes.format_bytes(behind.waiting_bytes)} of WAL wait to be archived" if behind.waiting_bytes else ""
    )
    if use is not None:
        whose = f"branch {use.branch_name} ({use.branch_id}) of project {use.project_name} ({use.project_id})"
    else:
        whose = f"branch {behind.branch_id or '?'} of project {behind.project_id or '?'}"
    return f"The history of {whose} falls behind{waits}: {behind.reason}"


def _fix(settings: Settings, folders: Folders, volume: VolumeId) -> str:
    """What its server says tells most; docs/runbooks/archiving-fails.md tells the rest."""
    runs = {run.volume_id: run.endpoint_id for run in ComputeRuns(folders.runs).list_all()}
    of_server = f"logs {runs[volume]} -n 100" if volume in runs else "logs -n 200"
    return f"{output.format_command(of_server, settings.home)}  # then docs/runbooks/archiving-fails.md"

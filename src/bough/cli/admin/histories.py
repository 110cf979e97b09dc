"""The check of what is kept to go back to: whose WAL is not archived, why, and what to type."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bough.cli import output
from bough.cli.admin import amounts
from bough.cli.admin.finding import Finding, fine, warning
from bough.cli.admin.storage import names
from bough.config import Settings
from bough.control import history_notes
from bough.engine.local.computes.runs import Runs
from bough.engine.local.folders import Folders
from bough.engine.local.history.archives import Archives
from bough.engine.local.volumes.folder import VolumeFolder
from bough.engine.local.volumes.volumes import Volumes
from bough.engine.port import EngineError
from bough.ids import VolumeId
from bough.postgres import wal
from bough.store.volume_uses import VolumeUse

NAMED = 5  # of those in trouble, at most


@dataclass(frozen=True, slots=True)
class _Behind:
    waiting_bytes: int
    branch_id: str | None
    project_id: str | None
    reason: str


def archiving(settings: Settings) -> Finding:
    """By what the platform noted last, and by what waits on the disk, which also tells when it does not run."""
    try:
        folders = Folders(settings)
        behind = _behind(settings, folders)
    except (EngineError, OSError) as error:
        return warning("history", f"What waits to be archived is not known: {error}")
    if not behind:
        return fine("history", "archiving keeps up")
    uses = names.by_volume(settings)
    worst = sorted(behind, key=lambda volume: behind[volume].waiting_bytes, reverse=True)
    sentences = [_sentence(behind[volume], uses.get(volume)) for volume in worst[:NAMED]]
    if len(worst) > NAMED:
        sentences.append(f"So it is with {len(worst) - NAMED} more.")
    return warning("history", " ".join(sentences), _mend(settings, folders, worst[0]))


def _behind(settings: Settings, folders: Folders) -> Mapping[VolumeId, _Behind]:
    noted = {VolumeId(note.volume_id): note for note in history_notes.read(settings)}
    found = {
        volume: _Behind(size, None, None, "It waits for a compute that archives it.")
        for volume, size in _waiting(folders).items()
        if size >= settings.history_alarm_bytes
    }
    return found | {
        volume: _Behind(note.waiting_bytes, note.branch_id, note.project_id, note.trouble)
        for volume, note in noted.items()
    }


def _waiting(folders: Folders) -> dict[VolumeId, int]:
    """Bytes that each volume has to archive; the last of its WAL is not among them until it is full."""
    if not folders.volumes.is_dir():
        return {}
    archives = Archives(Volumes(folders.volumes, folders.history))
    found = {
        VolumeId(path.name): len(archives.waiting(_folder(path, folders)))
        for path in folders.volumes.iterdir()
        if path.is_dir() and not path.is_symlink()
    }
    return {volume: count * wal.SEGMENT_BYTES for volume, count in found.items() if count}


def _folder(path: Path, folders: Folders) -> VolumeFolder:
    return VolumeFolder(path, (folders.wal or path) / path.name)


def _sentence(behind: _Behind, use: VolumeUse | None) -> str:
    waits = f", {amounts.in_words(behind.waiting_bytes)} of WAL wait to be archived" if behind.waiting_bytes else ""
    if use is not None:
        whose = f"branch {use.branch_name} ({use.branch_id}) of project {use.project_name} ({use.project_id})"
    else:
        whose = f"branch {behind.branch_id or '?'} of project {behind.project_id or '?'}"
    return f"The history of {whose} falls behind{waits}: {behind.reason}"


def _mend(settings: Settings, folders: Folders, volume: VolumeId) -> str:
    """What its server says tells most; docs/runbooks/archiving-fails.md tells the rest."""
    runs = {run.volume_id: run.endpoint_id for run in Runs(folders.runs).all()}
    of_server = f"logs {runs[volume]} -n 100" if volume in runs else "logs -n 200"
    return f"{output.our_command(of_server, settings.home)}  # then docs/runbooks/archiving-fails.md"

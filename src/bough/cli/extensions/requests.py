"""What the commands that add and remove extensions have in common."""

import asyncio
import sys
from collections.abc import Callable, Sequence

from bough.cli import output, progress
from bough.cli.postgres import builds, use_check
from bough.cli.storage.volume_uses import make_store
from bough.config import Settings
from bough.domain.project import Project
from bough.engine.local.installs import offered_extensions
from bough.engine.local.installs.extension_requests import Request
from bough.engine.local.installs.update import BuildChange
from bough.errors import NotFound
from bough.ids import ProjectId

Change = Callable[[Request], list[BuildChange]]


def run(settings: Settings, project: str | None, change: Change, *, ignores_unknown: bool = False) -> list[BuildChange]:
    """Change the build of all projects or of one, and wait until a running platform uses it."""
    found = find_project(settings, project) if project else None
    with progress.display(bars=sys.stderr.isatty()) as report:
        request = Request(
            settings=settings,
            project=found.id if found else None,
            pin=found.install if found else "",
            progress=report,
            check=use_check.make(settings, ignores_unknown=ignores_unknown),
        )
        changes = change(request)
    for note in request.notes:
        output.print_note(f"{output.colorize('warning')}: {note}")
    builds.wait_until_followed(settings, changes)
    return changes


def find_project(settings: Settings, project_id: str) -> Project:
    async def read() -> Project | None:
        store = make_store(settings)
        try:
            async with store.read() as rows:
                return await rows.projects.get(ProjectId(project_id))
        finally:
            await store.close()

    has_store = bool(settings.store_url) or settings.store_file.exists()
    project = asyncio.run(read()) if has_store else None
    if project is None or project.deleted_at is not None:
        raise NotFound(f"There is no project {project_id!r} in {settings.home}.")
    return project


def restart_or_count(settings: Settings, project: str | None, *, restart: bool) -> tuple[int, int]:
    """Return how many computes were restarted, and how many wait for a restart."""
    outdated = builds.list_outdated(settings, project)
    restarted = builds.restart(settings, outdated) if restart else 0
    return restarted, len(outdated) - restarted


def show(changes: Sequence[BuildChange], done: str, computes: tuple[int, int], command: str, *, json: bool) -> None:
    """Say what was done. `command` restarts the computes that wait for it."""
    restarted, waiting = computes
    if json:
        output.print_json(
            {
                "changes": [_to_fields(change) for change in changes],
                "restarted": restarted,
                "outdated": waiting,
            }
        )
        return
    if not changes:
        output.print_text("Nothing to do.")
    for line in dict.fromkeys(f"{done} for {_describe_users(change)} (build {change.after.id})." for change in changes):
        output.print_text(line)
    builds.print_restarts(command, restarted=restarted, waiting=waiting)


def _describe_users(change: BuildChange) -> str:
    return f"the project {change.project_id}" if change.project_id else f"Postgres {change.after.major}"


def _to_fields(change: BuildChange) -> dict[str, object]:
    before = offered_extensions.read(change.before) if change.before else {}
    after = offered_extensions.read(change.after)
    return {
        **builds.to_fields(change),
        "added": sorted(after.keys() - before.keys()),
        "removed": sorted(before.keys() - after.keys()),
    }

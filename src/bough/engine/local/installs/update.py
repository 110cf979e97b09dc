"""Bring the installs that a home uses to the newest versions, or one step back.

The result is a selection (see `selection.py`). Writing it is the moment at which the update happens; everything before
only adds installs to the cache.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bough.config import Settings
from bough.engine.local.debian.errors import PackageError
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import (
    changelog,
    debian_build,
    debian_packages,
    download,
    installs,
    locks,
    selection,
    time_zones,
)
from bough.engine.local.installs.additions import Additions
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import Flavour, Install
from bough.engine.local.installs.selection import SelectedInstall
from bough.engine.local.progress import Progress
from bough.engine.port import EngineError
from bough.ids import ProjectId

# Projects of these flavours are served by Debian's build after an update.
MOVED_FLAVOURS = (Flavour.DEBIAN, Flavour.WHEEL, Flavour.NPM)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildChange:
    """The computes of a pin, or of one project, start with another install."""

    pin: str
    project_id: ProjectId | None = None  # None: of all projects without an install of their own
    before: Install | None
    after: Install
    fixed_cves: tuple[str, ...] = ()

    @property
    def is_older(self) -> bool:
        """Whether it is a step back."""
        return self.before is not None and self.after.sort_key < self.before.sort_key


Check = Callable[[Sequence[BuildChange]], None]  # raises an EngineError if a change is not possible


def accept(_changes: Sequence[BuildChange]) -> None:
    """For a home whose databases need not be considered."""


def update(settings: Settings, progress: Progress, check: Check = accept) -> list[BuildChange]:
    """Build the newest installs and select them. Raise an EngineError, and change nothing, if that is not possible."""
    if problem := time_zones.explain_missing():
        raise PackageError(problem)
    with selection.hold(settings.home), Mirrors.open(settings.debian_mirror) as mirrors:
        if mirrors is None:
            raise PackageError(f"{download.NO_MIRROR} Then run `bough postgres update` again.")
        before = list_serving(settings.home, installs.find_installs(settings.cache))
        majors = {*settings.postgres_versions, *(each.major for each in before.values() if each.is_managed)}
        of_pins, of_projects = {}, {}
        for major in sorted(majors & debian_packages.RELEASES.keys()):
            for key, additions in list_additions(before, major, settings.cache).items():
                plan = debian_build.plan_with(additions, major, mirrors, progress)
                current = before.get(key or installs.format_pin(Flavour.DEBIAN, major))
                locks.check_not_older(plan.packages, _list_packages(current))
                install = debian_build.build(plan, mirrors, settings.cache, progress)
                if key:
                    of_projects[key] = install
                else:
                    of_pins[major] = install
        return select(settings.home, before, of_pins, of_projects, check)


def list_additions(serving: Mapping[str, Install], major: int, cache: Path) -> dict[str, Additions]:
    """Return what the operator added for all projects of a major version, under "", and for single projects."""
    additions = {"": Additions()}
    for key, install in serving.items():
        if install.major == major:
            added = Additions.of(install, cache)
            if selection.split_key(key)[1] is None:
                additions[""] = additions[""].merged_with(added)
            else:
                additions[key] = added
    for each in additions.values():
        each.check_major(major)
    return additions


def roll_back(settings: Settings, major: int, check: Check = accept) -> list[BuildChange]:
    """Select the installs of a major version that were used before the last change."""
    with selection.hold(settings.home):
        found, entries = installs.find_installs(settings.cache), selection.read(settings.home)
        changes = []
        for key, entry in entries.items():
            current, previous = found.get(entry.current), found.get(entry.previous or "")
            if current is not None and previous is not None and current.major == major:
                entries[key] = SelectedInstall(current=previous.id, previous=current.id)
                changes.append(describe_change(key, current, previous))
        if not changes:
            raise EngineError(
                f"There is no earlier build of Postgres {major} to go back to: `bough postgres status` lists the "
                "builds.",
                transient=False,
            )
        check(changes)
        selection.write(settings.home, entries)
    return changes


def _list_packages(install: Install | None) -> Mapping[str, str]:
    record = BuildRecord.read(install.root) if install else None
    return record.packages if record else {}


def list_serving(home: Path, found: Mapping[str, Install]) -> dict[str, Install]:
    """Return the install of each pin, and of each project that has one of its own."""
    selected = {key: found[entry.current] for key, entry in selection.read(home).items() if entry.current in found}
    return {**installs.select_newest(found.values()), **selected}


def select(
    home: Path,
    before: Mapping[str, Install],
    newest: Mapping[int, Install],
    of_projects: Mapping[str, Install] | None = None,
    check: Check = accept,
) -> list[BuildChange]:
    """Let the newest install of a major version serve all pins of it, whatever their flavour.

    `of_projects` are the installs of single projects, by key.
    """
    pins = {installs.format_pin(flavour, new.major): new for new in newest.values() for flavour in MOVED_FLAVOURS}
    return change(home, before, {**pins, **(of_projects or {})}, check)


def change(home: Path, before: Mapping[str, Install], after: Mapping[str, Install], check: Check) -> list[BuildChange]:
    """Select installs, by pin or key of a project. A project with the install of its pin needs no entry."""
    entries, changes = selection.read(home), []
    for key, new in after.items():
        old, pin = before.get(key), selection.split_key(key)[0]
        entry = entries.get(key) or SelectedInstall(current=old.id if old else new.id)
        entries[key] = entry.replaced_by(new.id)
        if key != pin and pin in entries and entries[pin].current == new.id:
            del entries[key]
        if (old and old.id != new.id) or (old is None and pin == new.pin):
            changes.append(describe_change(key, old, new))
    check(changes)
    selection.write(home, entries)
    return changes


def describe_change(key: str, before: Install | None, after: Install) -> BuildChange:
    pin, project = selection.split_key(key)
    cves = changelog.list_fixed_cves(before, after)
    return BuildChange(pin=pin, project_id=project, before=before, after=after, fixed_cves=cves)

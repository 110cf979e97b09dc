"""Bring the installs that a home uses to the newest versions, or one step back.

The result is a selection (see `selection.py`). Writing it is the moment at which the update happens; everything before
only adds installs to the cache.
"""

from collections.abc import Mapping
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
    selection,
    time_zones,
)
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import Flavour, Install, format_pin
from bough.engine.local.installs.selection import SelectedInstall
from bough.engine.local.progress import Progress
from bough.engine.port import EngineError

# Projects of these flavours are served by Debian's build after an update.
MOVED_FLAVOURS = (Flavour.DEBIAN, Flavour.WHEEL, Flavour.NPM)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildChange:
    """The computes of a pin start with another install."""

    pin: str
    before: Install | None
    after: Install
    fixed_cves: tuple[str, ...] = ()


def update(settings: Settings, progress: Progress) -> list[BuildChange]:
    """Build the newest installs and select them. Raise an EngineError, and change nothing, if that is not possible."""
    if problem := time_zones.explain_missing():
        raise PackageError(problem)
    with Mirrors.open(settings.debian_mirror) as mirrors:
        if mirrors is None:
            raise PackageError(f"{download.NO_MIRROR} Then run `bough postgres update` again.")
        found = installs.find_installs(settings.cache)
        before = list_serving(settings.home, found)
        majors = {*settings.postgres_versions, *(each.major for each in before.values() if each.is_managed)}
        newest = {}
        for major in sorted(majors & debian_packages.RELEASES.keys()):
            plan = debian_build.plan_newest(major, mirrors, (), progress)
            debian_build.check_not_older(plan, _list_packages(before.get(format_pin(Flavour.DEBIAN, major))))
            newest[major] = debian_build.build(plan, mirrors, settings.cache, progress)
    return select(settings.home, before, newest)


def roll_back(settings: Settings, major: int) -> list[BuildChange]:
    """Select the installs of a major version that were used before the last update."""
    found, entries = installs.find_installs(settings.cache), selection.read(settings.home)
    changes = []
    for pin, entry in entries.items():
        current, previous = found.get(entry.current), found.get(entry.previous or "")
        if current is not None and previous is not None and current.major == major:
            entries[pin] = SelectedInstall(current=previous.id, previous=current.id)
            changes.append(BuildChange(pin=pin, before=current, after=previous))
    if not changes:
        raise EngineError(
            f"There is no earlier build of Postgres {major} to go back to: `bough postgres status` lists the builds.",
            transient=False,
        )
    selection.write(settings.home, entries)
    return changes


def _list_packages(install: Install | None) -> Mapping[str, str]:
    record = BuildRecord.read(install.root) if install else None
    return record.packages if record else {}


def list_serving(home: Path, found: dict[str, Install]) -> dict[str, Install]:
    selected = {pin: found[entry.current] for pin, entry in selection.read(home).items() if entry.current in found}
    return {**installs.select_newest(found.values()), **selected}


def select(home: Path, before: dict[str, Install], newest: dict[int, Install]) -> list[BuildChange]:
    """Let the newest install of a major version serve all pins of it, whatever their flavour."""
    entries = selection.read(home)
    changes = []
    for new in newest.values():
        for pin in (format_pin(flavour, new.major) for flavour in MOVED_FLAVOURS):
            old = before.get(pin)
            entry = entries.get(pin) or SelectedInstall(current=old.id if old else new.id)
            entries[pin] = entry.replaced_by(new.id)
            if (old and old.id != new.id) or (old is None and pin == new.pin):
                cves = changelog.list_fixed_cves(old, new)
                changes.append(BuildChange(pin=pin, before=old, after=new, fixed_cves=cves))
    selection.write(home, entries)
    return changes

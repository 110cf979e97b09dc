"""Remove installs that nobody uses any more from the cache, which several homes may share.

Each home records which installs it may start computes with. An install without such a home, from which no process runs,
is removed, unless it is the one that a new home would use.
"""

import hashlib
import json
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from bough import clock
from bough.engine.local.durable_files import write_atomically
from bough.engine.local.installs import build_record, installs, own_packages, staging
from bough.engine.local.installs.installs import Flavour
from bough.engine.local.installs.selection import Selection
from bough.engine.port import EngineError

_HOMES = ".homes"
_MAX_BUILD_SECONDS = 24 * 3600


def record_home(cache: Path, home: Path, selection: Selection, in_use: Collection[str] = ()) -> None:
    """Record what a home uses: the selected installs, those before them for a rollback, and those that volumes run with
    or go back to.
    """
    selected = {each for entry in selection.values() for each in (entry.current, entry.previous) if each}
    used = sorted(selected | set(in_use))
    name = hashlib.sha256(str(home).encode()).hexdigest()[:16]
    with suppress(EngineError), staging.hold_cache(cache) as folder:  # the cache may belong to another user
        (folder / _HOMES).mkdir(mode=0o755, exist_ok=True)
        text = json.dumps({"home": str(home), "installs": used})
        write_atomically(folder / _HOMES / f"{name}.json", text, mode=0o644)


def remove_unused(cache: Path) -> list[str]:
    """Return the ids of the removed installs. Remove the operator's own extensions that no install contains, too."""
    removed = []
    with suppress(EngineError), staging.hold_cache(cache) as folder:
        _remove_incomplete(folder)
        found = installs.find_installs(cache)
        newest = installs.select_newest(found.values()).values()
        kept = {*_list_recorded(folder), *(each.id for each in newest if each.flavour is Flavour.DEBIAN)}
        unused = [each for each in found.values() if each.is_managed and each.id not in kept]
        for install in unused:
            if not _is_running(folder / install.id):
                # Renamed first, so that a removal that is interrupted leaves no incomplete install.
                (folder / install.id).rename(folder / f"{install.id}{staging.TEMPORARY}")
                shutil.rmtree(folder / f"{install.id}{staging.TEMPORARY}")
                removed.append(install.id)
        used = {own for each in found.values() if each.id not in removed for own in each.own}
        own_packages.remove_unused(cache, used, _is_old)
    return removed


def _remove_incomplete(folder: Path) -> None:
    """Remove what an interrupted download left. Nobody creates an install while this process holds the cache."""
    for path in folder.glob("*-*"):
        is_recorded = path.name.startswith("embedded-") or (path / build_record.FILE).exists()
        if path.is_dir() and (path.name.endswith(staging.TEMPORARY) or not is_recorded):
            shutil.rmtree(path)


def _is_old(copy: Path) -> bool:
    """Return whether no command can still be building an install with it."""
    return clock.now().timestamp() - copy.stat().st_mtime > _MAX_BUILD_SECONDS


def _list_recorded(folder: Path) -> Iterator[str]:
    """Yield the installs of homes that still exist."""
    for path in (folder / _HOMES).glob("*.json"):
        try:
            fields = json.loads(path.read_text())
            home, used = Path(fields["home"]), fields["installs"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if home.is_dir():
            yield from used
        else:
            path.unlink(missing_ok=True)


def _is_running(install: Path) -> bool:
    return any(program.is_relative_to(install) for program in _list_running_programs())


def _list_running_programs() -> Iterable[Path]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (process / "exe").readlink()

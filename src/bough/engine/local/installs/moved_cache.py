"""Adapt Debian's builds to their path again when the cache was moved, because their programs contain the path."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bough.engine.local.debian.architecture import find_architecture
from bough.engine.local.durable_files import sync_filesystem
from bough.engine.local.installs import debian_tree, server_trial, staging
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import Flavour, Install, installs_folder, read_install


def repair(cache: Path) -> list[str]:
    """Return the ids of the installs that were adapted. A repair that is interrupted is repeated at the next start."""
    if not any(_find_moved(cache)):
        return []
    with staging.hold_cache(cache):
        repaired = []
        for install, record in _find_moved(cache):
            debian_tree.adapt(install.root, install.root, install.major)
            server_trial.check_runs(install.bin / "postgres", install.major, install.id)
            sync_filesystem(install.root)
            record.moved_to(install.root).write(install.root)
            repaired.append(install.id)
    return repaired


def _find_moved(cache: Path) -> Iterator[tuple[Install, BuildRecord]]:
    for folder in sorted(installs_folder(cache).glob(f"{Flavour.DEBIAN}-*")):
        record, install = BuildRecord.read(folder), read_install(folder)
        if record and install and not _is_same_tree(Path(record.path), folder):
            yield install, record


def _is_same_tree(recorded: Path, folder: Path) -> bool:
    """Return whether the recorded path leads to the same files, such as through a link, a mount or hard links."""
    if recorded == folder:
        return True
    architecture = find_architecture()
    linker = Path("usr", "lib", architecture.triplet, architecture.dynamic_linker)
    with suppress(OSError):
        return (recorded / linker).samefile(folder / linker)
    return False

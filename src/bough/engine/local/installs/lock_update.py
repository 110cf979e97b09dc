"""Write the locks with the newest packages of Debian: `python -m bough.engine.local.installs.lock_update`.

For maintainers of Bough. The mirrors come from apt's configuration, or from the first argument.
"""

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from bough.engine.local.debian import deb_file, indexes
from bough.engine.local.debian.architecture import Architecture, find_architecture
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import changelog, debian_packages, locks, mkfs_build, security_fixes
from bough.engine.local.installs.locks import LockedPackage
from bough.engine.local.progress import ignore_progress

_FOLDER = Path(__file__).parent / "generated"
_MACHINES = ("x86_64", "aarch64")


def main(mirror_setting: str) -> None:
    with Mirrors.open(mirror_setting) as mirrors:
        if mirrors is None:
            sys.exit("No mirror of Debian is known: give its address as an argument.")
        fixes: dict[str, tuple[str, ...]] = {}
        for major in debian_packages.RELEASES:
            locked = [_update_lock(mirrors, major, machine) for machine in _MACHINES]
            fixes |= _read_fixes(mirrors, major, locked[0])
        (_FOLDER / security_fixes.FILE).write_text(security_fixes.format_file(fixes))


def _update_lock(mirrors: Mirrors, major: int, machine: str) -> tuple[LockedPackage, ...]:
    architecture = find_architecture(machine)
    release = debian_packages.RELEASES[major]
    index = indexes.read_index(mirrors, list(indexes.list_suites(release)), architecture, ignore_progress)
    if release == mkfs_build.RELEASE:
        _write(mkfs_build.LOCK, architecture, mkfs_build.resolve(index))
    packages = locks.from_packages(debian_packages.resolve(index, major))
    _write(debian_packages.lock_name(major), architecture, packages)
    return packages


def _write(name: str, architecture: Architecture, packages: tuple[LockedPackage, ...]) -> None:
    path = _FOLDER / locks.file_name(name, architecture.name)
    path.write_text(locks.format_lock(packages))
    print(path.name, len(packages), "packages")


def _read_fixes(mirrors: Mirrors, major: int, packages: tuple[LockedPackage, ...]) -> Mapping[str, tuple[str, ...]]:
    server = next(each for each in packages if each.name == f"postgresql-{major}")
    with TemporaryDirectory() as folder:
        file = io.BytesIO(indexes.fetch_bytes(mirrors, server.file))
        deb_file.unpack(file, Path(folder), lambda path: path.startswith("usr/share/doc/"))
        return changelog.read(Path(folder), major)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))

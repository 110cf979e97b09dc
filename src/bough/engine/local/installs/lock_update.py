"""Write the locks with the newest packages of Debian: `python -m bough.engine.local.installs.lock_update`.

For maintainers of Bough. The mirrors come from apt's configuration, or from the first argument.
"""

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from bough.engine.local.debian import deb_file, indexes
from bough.engine.local.debian.architecture import find_architecture
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import changelog, debian_packages, locks, security_fixes
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
    suites = list(indexes.list_suites(debian_packages.RELEASES[major]))
    index = indexes.read_index(mirrors, suites, architecture, ignore_progress)
    packages = locks.from_packages(debian_packages.resolve(index, major))
    path = _FOLDER / locks.file_name(debian_packages.lock_name(major), architecture.name)
    path.write_text(locks.format_lock(packages))
    print(path.name, len(packages), "packages")
    return packages


def _read_fixes(mirrors: Mirrors, major: int, packages: tuple[LockedPackage, ...]) -> Mapping[str, tuple[str, ...]]:
    server = next(each for each in packages if each.name == f"postgresql-{major}")
    with TemporaryDirectory() as folder:
        file = io.BytesIO(indexes.fetch_bytes(mirrors, server.file))
        deb_file.unpack(file, Path(folder), lambda path: path.startswith("usr/share/doc/"))
        return changelog.read(Path(folder), major)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))

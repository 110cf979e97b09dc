"""Write the locks with the newest packages of Debian: `python -m bough.engine.local.installs.lock_update`.

For maintainers of Bough. The mirrors come from apt's configuration, or from the first argument.
"""

import sys
from pathlib import Path

from bough.engine.local.debian import indexes
from bough.engine.local.debian.architecture import find_architecture
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import debian_packages, locks
from bough.engine.local.progress import ignore_progress

_FOLDER = Path(__file__).parent / "generated"
_MACHINES = ("x86_64", "aarch64")


def main(mirror_setting: str) -> None:
    with Mirrors.open(mirror_setting) as mirrors:
        if mirrors is None:
            sys.exit("No mirror of Debian is known: give its address as an argument.")
        for major, release in debian_packages.RELEASES.items():
            for machine in _MACHINES:
                architecture = find_architecture(machine)
                index = indexes.read_index(mirrors, list(indexes.list_suites(release)), architecture, ignore_progress)
                packages = locks.from_packages(debian_packages.resolve(index, major))
                path = _FOLDER / locks.file_name(debian_packages.lock_name(major), architecture.name)
                path.write_text(locks.format_lock(packages))
                print(path.name, len(packages), "packages")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))

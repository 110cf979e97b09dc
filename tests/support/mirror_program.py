"""The `bough` program on a machine whose apt names no mirror, and a mirror of the test in place of Debian's."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.debian import architecture
from bough.engine.local.installs import debian_packages, locks
from support.debian_mirror import DebianMirror
from support.folders import reserve_uid_range
from support.loop_images import list_mounts
from support.program import Program, Result, make_environment

APT = Path("/etc/apt")
_USE_MIRRORS = frozenset(["up", "doctor", "update"])
_MAIN = """
import sys
from bough.cli.main import main
from bough.engine.local.debian import keyring
keyring.FINGERPRINTS = frozenset([sys.argv.pop(1)])
main()
"""


@dataclass
class MirrorProgram(Program):
    """Accepts the key of the test's mirror instead of Debian's."""

    fingerprint: str = ""
    mirror: str = ""  # the setting
    hidden: tuple[Path, ...] = ()  # files and folders that the commands find empty; this needs root

    def __post_init__(self) -> None:
        """Use ids of its own, because a program in another mount namespace does not see every home that uses ids."""
        self.variables = {"BOUGH_PROJECT_UIDS": str([*reserve_uid_range()]), **self.variables}

    def run(self, *arguments: str, **variables: str) -> Result:
        variables = {"BOUGH_DEBIAN_MIRROR": self.mirror, **variables}
        if _USE_MIRRORS.isdisjoint(arguments[:2]):
            return super().run(*arguments, **variables)  # which is faster
        return subprocess.run(
            self.command(*arguments),
            env=make_environment(**self.variables, **variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def command(self, *arguments: str) -> list[str]:
        return [*_hide(self.hidden, self.home), sys.executable, "-c", _MAIN, self.fingerprint, *arguments]


def _hide(paths: Sequence[Path], home: Path) -> Iterator[str]:
    """Return the beginning of a command that runs in a mount namespace of its own.

    It does not keep the images in use that other tests have mounted.
    """
    if paths:
        images = [path for path in list_mounts(Path("/"), "/dev/loop") if not home.is_relative_to(path)]
        unmounts = [f"umount --lazy {path} 2>/dev/null;" for path in images]
        mounts = [
            f"mount -t tmpfs none {path}" if path.is_dir() else f"mount --bind /dev/null {path}" for path in paths
        ]
        script = " ".join([*unmounts, " && ".join([*mounts, 'exec "$@"'])])
        yield from ("unshare", "--mount", "sh", "-c", script, "sh")


def list_locked_packages(mirror: DebianMirror, major: int = 17) -> None:
    """Publish an index with exactly the locked packages. The mirror needs their files only if they are downloaded."""
    locked = locks.read(debian_packages.lock_name(major), architecture.find_architecture().name)
    server = f"postgresql-{major}"
    for each in locked:
        depends = ", ".join(other.name for other in locked if other.name != server) if each.name == server else ""
        stanza = {"Package": each.name, "Version": each.version, "Depends": depends, "Filename": each.file.path}
        stanzas = mirror.stanzas.setdefault(debian_packages.RELEASES[major], {})
        stanzas[each.name] = {**stanza, "Size": str(each.file.size), "SHA256": each.file.sha256}
    mirror.add_keyring()
    mirror.publish(debian_packages.RELEASES[major])

"""Extensions of the operator's own: a `.deb`, or a folder with control files, scripts and libraries.

What is given is checked and copied into the cache, so that every later build can include it again. Only files of
extensions are taken: a package cannot replace the server or the libraries that it uses.
"""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from bough.engine.local.debian.errors import PackageError
from bough.engine.local.durable_files import publish_folder, sync_filesystem, write_atomically
from bough.engine.local.installs import own_deb, own_folder, staging
from bough.engine.local.installs.own_files import ANY_MAJOR, GivenPackage

FOLDER = "own-extensions"  # of the cache
_FILE = "package.json"
_FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPackage:
    id: str  # its name and a digest of its files
    version: str
    extensions: tuple[str, ...]
    majors: tuple[int, ...]  # that it is built for; none: it contains no library, and works with all
    depends: str  # on packages of Debian, as in the field Depends

    def supports(self, major: int) -> bool:
        return not self.majors or major in self.majors


def store(path: Path, cache: Path) -> OwnPackage:
    """Check what the operator gave, and copy it into the cache."""
    with staging.hold_cache(cache):
        parent = cache / FOLDER
        parent.mkdir(mode=0o755, exist_ok=True)
        staged = parent / ".making"
        shutil.rmtree(staged, ignore_errors=True)
        try:
            (staged / _FILES).mkdir(parents=True)
            return _publish(_read(path, staged / _FILES), staged)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def read(cache: Path, package_id: str) -> OwnPackage:
    try:
        fields = json.loads((cache / FOLDER / package_id / _FILE).read_text())
        return OwnPackage(
            **{**fields, "extensions": tuple(fields["extensions"]), "majors": tuple(fields["majors"])},
        )
    except (OSError, ValueError, KeyError, TypeError):
        raise PackageError(
            f"The cache no longer contains {package_id}, an extension of your own: add it again with "
            "`bough extensions add`, and then repeat this."
        ) from None


def add_to_tree(packages: Iterable[OwnPackage], cache: Path, major: int, extensions: Path, libraries: Path) -> None:
    """Copy the files of the packages over those of an install."""
    for package in packages:
        folder = cache / FOLDER / package.id / _FILES
        source = folder / (ANY_MAJOR if (folder / ANY_MAJOR).is_dir() else str(major))
        for name, target in (("extension", extensions), ("lib", libraries)):
            if (source / name).is_dir():
                shutil.copytree(source / name, target, symlinks=True, dirs_exist_ok=True, copy_function=_replace)


def remove_unused(cache: Path, used: Iterable[str], is_old: Callable[[Path], bool]) -> None:
    """Remove the copies that no install contains. `is_old` protects one that is being added."""
    parent = cache / FOLDER
    unused = {path.name for path in parent.iterdir()} - set(used) if parent.is_dir() else set()
    for name in unused:
        if is_old(parent / name):
            shutil.rmtree(parent / name, ignore_errors=True)


def _read(path: Path, target: Path) -> GivenPackage:
    try:
        return own_folder.read(path, target) if path.is_dir() else own_deb.read(path, target)
    except OSError as error:
        if error.filename is None or not Path(str(error.filename)).is_relative_to(target.parent):
            raise PackageError(f"{path} cannot be read: {error.strerror}.") from error
        raise


def _publish(given: GivenPackage, staged: Path) -> OwnPackage:
    package = OwnPackage(
        id=f"{given.name}-{given.digest[:16]}",
        version=given.version,
        extensions=given.extensions,
        majors=given.majors,
        depends=given.depends,
    )
    folder = staged.with_name(package.id)
    if (folder / _FILE).exists():
        folder.touch()
        return package
    shutil.rmtree(folder, ignore_errors=True)
    write_atomically(staged / _FILE, json.dumps(asdict(package), indent=1) + "\n", mode=0o644)
    sync_filesystem(staged)
    publish_folder(staged, folder)
    return package


def _replace(source: str, target: str) -> None:
    """Replace a file instead of writing into it, because a link may share it with another install."""
    Path(target).unlink(missing_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)

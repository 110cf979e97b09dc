"""Checks of the folders the platform lives in."""

import os
import shutil
from pathlib import Path

from bough import byte_sizes
from bough.cli import output, postgres_install
from bough.cli.doctor.finding import Finding, failed, ok, warning
from bough.config import Settings, is_root
from bough.engine.local.durable_files import is_btrfs
from bough.engine.local.folders import Folders
from bough.engine.local.free_space import explain_shortage as shortage_of
from bough.engine.local.images.image import Image
from bough.engine.local.volumes.driver_choice import choose_driver
from bough.engine.port import EngineError
from bough.errors import InvalidSetting
from bough.supervisor import home_lock

MIN_FREE_BYTES = 32 * 1024**2  # free bytes without which not even a log can be written
FETCH_BYTES = 400 * 1024**2  # free bytes that fetching and unpacking one Postgres takes


def check_home(settings: Settings) -> Finding:
    folder = nearest_existing(settings.home)
    if not folder.is_dir():
        return failed("home", f"{folder} is a file where a folder is needed.", f"mv {folder} {folder}.old")
    if not os.access(folder, os.W_OK | os.X_OK):
        sentence = f"The home {settings.home} cannot be made or written: {folder} belongs to someone else."
        return failed("home", sentence, f"sudo chown {os.geteuid()} {folder}")
    return ok("home", str(settings.home) if folder == settings.home else f"{settings.home} will be made")


def check_cache(settings: Settings) -> Finding:
    folder = nearest_existing(settings.cache)
    if os.access(folder, os.W_OK | os.X_OK) or not postgres_install.find_missing_versions(settings):
        return ok("cache", str(settings.cache))
    sentence = f"The cache {settings.cache}, where Postgres is kept, cannot be made or written; name another folder."
    return failed("cache", sentence, "export BOUGH_CACHE=/a/folder/of/yours")


def check_instance(settings: Settings) -> Finding:
    sentence = home_lock.describe_holder(settings)
    if sentence:
        return failed("instance", sentence, output.format_command("down", settings.home))
    return ok("instance", "no other instance uses the home")


def check_permissions(settings: Settings) -> Finding:
    """As root computes run as other users, who must be able to walk to their data and binaries."""
    if not is_root():
        return ok("folders", "computes run as you")
    for folder in (settings.home, settings.cache):
        closed = _closed_above(folder)
        if closed:
            sentence = f"The folder {closed} is closed to other users, and computes pass through it to {folder}."
            return failed("folders", sentence, f"chmod o+x {closed}")
    return ok("folders", "every folder above the home is open to computes")


def _closed_above(folder: Path) -> Path | None:
    """The first closed folder from the root down; the last one is ours, and we open it ourselves."""
    above = reversed(folder.resolve().parents)
    return next((part for part in above if part.is_dir() and not part.stat().st_mode & 0o001), None)


def check_storage(settings: Settings) -> Finding:
    """Where volumes are, and how they are cloned there."""
    try:
        image, draft = Image.load(settings.home), Image.load_draft(settings.home)
    except EngineError as error:
        return failed("storage", error.public_message)
    if image is not None and not image.is_mounted():
        problem = image.explain_mount_problem()
        return failed("storage", problem) if problem else ok("storage", f"{image.file} will be mounted")
    if image is None and draft is not None:
        sentence = f"Making a storage image began and did not end; {draft.staging_file} is left of it."
        again = f"storage init --size {draft.size} --fs {draft.fs}{' --thin' if draft.thin else ''}"
        return warning("storage", sentence, output.format_command(again, settings.home))
    return _cloning(settings, nearest_existing(Folders(settings).volumes))


def _cloning(settings: Settings, folder: Path) -> Finding:
    try:
        driver = choose_driver(settings.storage, folder).name
    except InvalidSetting as error:
        return failed("storage", error.public_message)
    except OSError as error:
        return warning("storage", f"How volumes can be cloned in {folder} is not known: {error.strerror}.")
    if driver == "plain":
        line = output.format_command("storage init --size 50G", settings.home)
        return ok("storage", f"plain: every branch is a whole copy; an image (`{line}`) does better")
    if is_btrfs(folder) and Folders(settings).pg_wal is None:
        sentence = (
            "The WAL is on btrfs: while btrfs commits, those who write to a much written database wait, for tenths of "
            "a second. A home on ext4 or XFS, with a storage image in it, does not have that (docs/storage.md)."
        )
        return warning("storage", f"{driver}: branches share what they have in common. {sentence}")
    return ok("storage", f"{driver}: branches share what they have in common")


def check_space(settings: Settings) -> Finding:
    """A platform that holds data starts above `FULL`, so that its owner can delete something."""
    free, floor = shutil.disk_usage(nearest_existing(settings.home)).free, settings.free_space_floor
    needed = MIN_FREE_BYTES if settings.store_file.exists() else max(MIN_FREE_BYTES, floor)
    if free < needed:
        return failed("space", f"{_full(settings.home, free, needed)} Free some, or take another disk with --home DIR.")
    if (
        postgres_install.find_missing_versions(settings)
        and (left := shutil.disk_usage(nearest_existing(settings.cache)).free) < FETCH_BYTES
    ):
        sentence = f"{_full(settings.cache, left, FETCH_BYTES)} Free some, or name another folder."
        return failed("space", sentence, "export BOUGH_CACHE=/on/a/larger/disk")
    if shortage := shortage_of(Folders(settings), floor):
        return warning("space", shortage)
    return ok("space", f"{byte_sizes.format_bytes(free)} are free")


def _full(folder: Path, free: int, needed: int) -> str:
    has, needs = byte_sizes.format_bytes(free), byte_sizes.format_bytes(needed)
    return f"The disk is full: {folder} needs {needs} of free space and has {has}."


def nearest_existing(folder: Path) -> Path:
    """The folder, or the first above it that exists."""
    return next(part for part in (folder, *folder.parents) if os.path.lexists(part))

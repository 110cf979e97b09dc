"""Checks of the folders that the platform uses."""

import os
import shutil
from pathlib import Path

from bough import byte_sizes
from bough.cli import output, postgres_install
from bough.cli.doctor.finding import Finding, failed, ok, warning
from bough.config import Settings, is_root
from bough.engine.local import free_space
from bough.engine.local.durable_files import is_btrfs
from bough.engine.local.folders import Folders
from bough.engine.local.images import new_home
from bough.engine.local.images.image import Image
from bough.engine.local.volumes.driver_choice import choose_driver
from bough.engine.port import EngineError
from bough.errors import InvalidSetting
from bough.supervisor import home_lock

MIN_FREE_BYTES = 32 * 1024**2  # with less, not even a log can be written
FETCH_BYTES = 400 * 1024**2  # space that downloading and unpacking one Postgres version takes


def check_home(settings: Settings) -> Finding:
    folder = nearest_existing(settings.home)
    if not folder.is_dir():
        return failed("home", f"{folder} is a file, but a folder is needed.", f"mv {folder} {folder}.old")
    if not os.access(folder, os.W_OK | os.X_OK):
        message = f"The home {settings.home} cannot be created or written: {folder} belongs to another user."
        return failed("home", message, f"sudo chown {os.geteuid()} {folder}")
    return ok("home", str(settings.home) if folder == settings.home else f"{settings.home} will be created")


def check_cache(settings: Settings) -> Finding:
    folder = nearest_existing(settings.cache)
    if os.access(folder, os.W_OK | os.X_OK) or not postgres_install.find_missing_versions(settings):
        return ok("cache", str(settings.cache))
    message = f"The cache {settings.cache}, which stores Postgres, cannot be created or written; choose another folder."
    return failed("cache", message, "export BOUGH_CACHE=/a/folder/of/yours")


def check_instance(settings: Settings) -> Finding:
    holder = home_lock.describe_holder(settings)
    if holder:
        return failed("instance", holder, output.format_command("down", settings.home))
    return ok("instance", "no other instance uses the home")


def check_permissions(settings: Settings) -> Finding:
    """As root, computes run as other users, which must be able to reach their data and binaries."""
    if not is_root():
        return ok("folders", "computes run as your user")
    for folder in (settings.home, settings.cache):
        closed = _find_closed_parent(folder)
        if closed:
            message = f"Other users cannot enter the folder {closed}, through which computes reach {folder}."
            return failed("folders", message, f"chmod o+x {closed}")
    return ok("folders", "computes can enter every folder above the home")


def _find_closed_parent(folder: Path) -> Path | None:
    """Return the topmost parent that other users cannot enter. The folder itself is ours, and we set its mode."""
    parents = reversed(folder.resolve().parents)
    return next((parent for parent in parents if parent.is_dir() and not parent.stat().st_mode & 0o001), None)


def check_storage(settings: Settings) -> Finding:
    """Report where volumes are stored and how they are cloned."""
    try:
        image, draft = Image.load(settings.home), Image.load_draft(settings.home)
    except EngineError as error:
        return failed("storage", error.public_message)
    if image is not None and not image.is_mounted():
        problem = image.explain_mount_problem()
        return failed("storage", problem) if problem else ok("storage", f"{image.file} will be mounted")
    if image is None and draft is not None:
        message = f"The creation of a storage image was interrupted; {draft.staging_file} is left over."
        retry = f"storage init --size {draft.size} --fs {draft.fs}{' --thin' if draft.thin else ''}"
        return warning("storage", message, output.format_command(retry, settings.home))
    return _check_cloning(settings, nearest_existing(Folders(settings).volumes))


def _check_cloning(settings: Settings, folder: Path) -> Finding:
    try:
        driver = choose_driver(settings.storage, folder).name
    except InvalidSetting as error:
        return failed("storage", error.public_message)
    except OSError as error:
        return warning("storage", f"Cannot determine how to clone volumes in {folder}: {error.strerror}.")
    if driver == "plain" and new_home.can_have_image(settings):
        return ok("storage", "the first `bough up` creates a storage image, so that branches share unchanged data")
    if driver == "plain":
        command = output.format_command("storage init --size 50G", settings.home)
        return ok("storage", f"plain: every branch is a full copy; a storage image (`{command}`) avoids this")
    sharing = f"{driver}: branches share unchanged data"
    if is_btrfs(folder) and Folders(settings).pg_wal is None:
        return warning(
            "storage",
            f"{sharing}. The WAL is on btrfs: while btrfs commits, writers on a busy database wait for tenths of a "
            "second. A home on ext4 or XFS with a storage image avoids this (docs/storage.md).",
        )
    return ok("storage", sharing)


def check_space(settings: Settings) -> Finding:
    """A platform that has data starts with `MIN_FREE_BYTES`, so that its owner can delete something."""
    free, floor = shutil.disk_usage(nearest_existing(settings.home)).free, settings.free_space_floor
    needed = MIN_FREE_BYTES if settings.store_file.exists() else max(MIN_FREE_BYTES, floor)
    if free < needed:
        advice = "Free some space, or choose another disk with --home DIR."
        return failed("space", f"{_describe_full(settings.home, free, needed)} {advice}")
    if postgres_install.find_missing_versions(settings):
        cache_free = shutil.disk_usage(nearest_existing(settings.cache)).free
        if cache_free < FETCH_BYTES:
            message = (
                f"{_describe_full(settings.cache, cache_free, FETCH_BYTES)} Free some space, or choose another folder."
            )
            return failed("space", message, "export BOUGH_CACHE=/on/a/larger/disk")
    if shortage := free_space.explain_shortage(Folders(settings), floor):
        return warning("space", shortage)
    return ok("space", f"{byte_sizes.format_mb_or_gb(free)} free")


def _describe_full(folder: Path, free: int, needed: int) -> str:
    free_text, needed_text = byte_sizes.format_mb_or_gb(free), byte_sizes.format_mb_or_gb(needed)
    return f"The disk is full: {folder} needs {needed_text} of free space and has {free_text}."


def nearest_existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(part for part in (folder, *folder.parents) if os.path.lexists(part))

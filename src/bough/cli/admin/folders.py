"""Checks of the folders the platform lives in."""

import os
import shutil
from pathlib import Path

from bough.cli import output
from bough.cli.admin import amounts, homes, prepare
from bough.cli.admin.finding import Finding, failed, fine, warning
from bough.config import Settings, running_as_root
from bough.engine.local.durable import is_btrfs
from bough.engine.local.folders import Folders
from bough.engine.local.images.image import Image
from bough.engine.local.space import shortage as shortage_of
from bough.engine.local.volumes.detect import choose
from bough.engine.port import EngineError
from bough.errors import SettingRefused

FULL = 32 * 1024**2  # free bytes without which not even a log can be written
FETCH = 400 * 1024**2  # free bytes that fetching and unpacking one Postgres takes


def home(settings: Settings) -> Finding:
    folder = nearest(settings.home)
    if not folder.is_dir():
        return failed("home", f"{folder} is a file where a folder is needed.", f"mv {folder} {folder}.old")
    if not os.access(folder, os.W_OK | os.X_OK):
        sentence = f"The home {settings.home} cannot be made or written: {folder} belongs to someone else."
        return failed("home", sentence, f"sudo chown {os.geteuid()} {folder}")
    return fine("home", str(settings.home) if folder == settings.home else f"{settings.home} will be made")


def cache(settings: Settings) -> Finding:
    folder = nearest(settings.cache)
    if os.access(folder, os.W_OK | os.X_OK) or not prepare.missing_versions(settings):
        return fine("cache", str(settings.cache))
    sentence = f"The cache {settings.cache}, where Postgres is kept, cannot be made or written; name another folder."
    return failed("cache", sentence, "export BOUGH_CACHE=/a/folder/of/yours")


def instance(settings: Settings) -> Finding:
    sentence = homes.in_use(settings)
    if sentence:
        return failed("instance", sentence, output.our_command("down", settings.home))
    return fine("instance", "no other instance uses the home")


def open_ways(settings: Settings) -> Finding:
    """As root computes run as other users, who must be able to walk to their data and binaries."""
    if not running_as_root():
        return fine("folders", "computes run as you")
    for folder in (settings.home, settings.cache):
        closed = _closed_above(folder)
        if closed:
            sentence = f"The folder {closed} is closed to other users, and computes pass through it to {folder}."
            return failed("folders", sentence, f"chmod o+x {closed}")
    return fine("folders", "every folder above the home is open to computes")


def _closed_above(folder: Path) -> Path | None:
    """The first closed folder from the root down; the last one is ours, and we open it ourselves."""
    above = reversed(folder.resolve().parents)
    return next((part for part in above if part.is_dir() and not part.stat().st_mode & 0o001), None)


def storage(settings: Settings) -> Finding:
    """Where volumes are, and how they are cloned there."""
    try:
        image, draft = Image.of(settings.home), Image.drafted(settings.home)
    except EngineError as error:
        return failed("storage", error.public)
    if image is not None and not image.is_mounted():
        problem = image.problem()
        return failed("storage", problem) if problem else fine("storage", f"{image.file} will be mounted")
    if image is None and draft is not None:
        sentence = f"Making a storage image began and did not end; {draft.making} is left of it."
        again = f"storage init --size {draft.size} --fs {draft.fs}{' --thin' if draft.thin else ''}"
        return warning("storage", sentence, output.our_command(again, settings.home))
    return _cloning(settings, nearest(Folders(settings).volumes))


def _cloning(settings: Settings, folder: Path) -> Finding:
    try:
        driver = choose(settings.storage, folder).name
    except SettingRefused as error:
        return failed("storage", error.public)
    except OSError as error:
        return warning("storage", f"How volumes can be cloned in {folder} is not known: {error.strerror}.")
    if driver == "plain":
        line = output.our_command("storage init --size 50G", settings.home)
        return fine("storage", f"plain: every branch is a whole copy; an image (`{line}`) does better")
    if is_btrfs(folder) and Folders(settings).wal is None:
        sentence = (
            "The WAL is on btrfs: while btrfs commits, those who write to a much written database wait, for tenths of "
            "a second. A home on ext4 or XFS, with a storage image in it, does not have that (docs/storage.md)."
        )
        return warning("storage", f"{driver}: branches share what they have in common. {sentence}")
    return fine("storage", f"{driver}: branches share what they have in common")


def space(settings: Settings) -> Finding:
    """A platform that holds data starts above `FULL`, so that its owner can delete something."""
    free, floor = shutil.disk_usage(nearest(settings.home)).free, settings.free_space_floor
    needed = FULL if settings.store_file.exists() else max(FULL, floor)
    if free < needed:
        return failed("space", f"{_full(settings.home, free, needed)} Free some, or take another disk with --home DIR.")
    if prepare.missing_versions(settings) and (left := shutil.disk_usage(nearest(settings.cache)).free) < FETCH:
        sentence = f"{_full(settings.cache, left, FETCH)} Free some, or name another folder."
        return failed("space", sentence, "export BOUGH_CACHE=/on/a/larger/disk")
    if shortage := shortage_of(Folders(settings), floor):
        return warning("space", shortage)
    return fine("space", f"{amounts.in_words(free)} are free")


def _full(folder: Path, free: int, needed: int) -> str:
    has, needs = amounts.in_words(free), amounts.in_words(needed)
    return f"The disk is full: {folder} needs {needs} of free space and has {has}."


def nearest(folder: Path) -> Path:
    """The folder, or the first above it that exists."""
    return next(part for part in (folder, *folder.parents) if os.path.lexists(part))

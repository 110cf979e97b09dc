"""Checks of the folders the platform lives in."""

import os
import shutil
from pathlib import Path

from bough.cli import output
from bough.cli.admin import homes, prepare
from bough.cli.admin.finding import Finding, failed, fine, warning
from bough.config import Settings, running_as_root

FULL = 32 * 1024**2  # free bytes without which not even a log can be written
FETCH = 400 * 1024**2  # free bytes that fetching and unpacking one Postgres takes


def home(settings: Settings) -> Finding:
    folder = _nearest(settings.home)
    if not folder.is_dir():
        return failed("home", f"{folder} is a file where a folder is needed.", f"mv {folder} {folder}.old")
    if not os.access(folder, os.W_OK | os.X_OK):
        sentence = f"The home {settings.home} cannot be made or written: {folder} belongs to someone else."
        return failed("home", sentence, f"sudo chown {os.geteuid()} {folder}")
    return fine("home", str(settings.home) if folder == settings.home else f"{settings.home} will be made")


def cache(settings: Settings) -> Finding:
    folder = _nearest(settings.cache)
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


def space(settings: Settings) -> Finding:
    """A platform that holds data starts above `FULL`, so that its owner can delete something."""
    free, floor = _free(settings.home), settings.free_space_floor
    needed = FULL if settings.store_file.exists() else max(FULL, floor)
    if free < needed:
        return failed("space", f"{_full(settings.home, free, needed)} Free some, or take another disk with --home DIR.")
    if prepare.missing_versions(settings) and _free(settings.cache) < FETCH:
        sentence = f"{_full(settings.cache, _free(settings.cache), FETCH)} Free some, or name another folder."
        return failed("space", sentence, "export BOUGH_CACHE=/on/a/larger/disk")
    if free < floor:
        sentence = (
            f"{_size(free)} are free for {settings.home}, below the floor of {_size(floor)}: nothing new is made."
        )
        return warning("space", sentence)
    return fine("space", f"{_size(free)} are free")


def _full(folder: Path, free: int, needed: int) -> str:
    return f"The disk is full: {folder} needs {_size(needed)} of free space and has {_size(free)}."


def _free(folder: Path) -> int:
    return shutil.disk_usage(_nearest(folder)).free


def _nearest(folder: Path) -> Path:
    """The folder, or the first above it that exists."""
    return next(part for part in (folder, *folder.parents) if os.path.lexists(part))


def _size(count: int) -> str:
    return f"{count / 1024**3:.1f} GB" if count >= 1024**3 else f"{count // 1024**2} MB"

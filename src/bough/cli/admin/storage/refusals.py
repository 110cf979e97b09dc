"""What keeps `bough storage init` from beginning. In each sentence is what to do about it."""

import shutil

import typer

from bough.cli import output
from bough.cli.admin import amounts
from bough.config import Settings, running_as_root
from bough.engine.local.computes import postmaster
from bough.engine.local.images import image_making
from bough.engine.local.images.image import INSIDE, Image
from bough.errors import NotFound, PreconditionFailed, Taken

SMALLEST = 1024**3


def check_root(settings: Settings, size: str) -> None:
    if not running_as_root():
        line = output.our_command(f"storage init --size {size}", settings.home)
        raise PreconditionFailed(f"Only root can make and mount an image: run `sudo {line}`.")


def checked_size(text: str) -> int:
    size = amounts.parsed(text)
    if size is None:
        raise typer.BadParameter(f"{text!r} is no size; write it like 50G, 500M or 1T.", param_hint="'--size'")
    if size < SMALLEST:
        raise typer.BadParameter(f"{text} is too small; an image has at least 1G.", param_hint="'--size'")
    return size // 4096 * 4096


def check(planned: Image, settings: Settings) -> None:
    """Of a home that we hold; what an earlier try left is cleared away on the way, for it takes room."""
    present = Image.of(settings.home)
    if present is not None:
        line = output.our_command("storage status", settings.home)
        raise Taken(f"{settings.home} has a storage image already, {present.file}; `{line}` shows it.")
    _check_folders(settings)
    _check_computes(settings)
    image_making.clear_away(settings.home)
    _check_file(planned)
    package = image_making.missing_package(planned.fs)
    if package is not None:
        raise PreconditionFailed(f"mkfs.{planned.fs} is missing here: run `apt-get install {package}`.")
    if not planned.thin:
        _check_free(planned, settings.free_space_floor)


def _check_folders(settings: Settings) -> None:
    """What a link leads to is somebody's choice, and not ours to remove."""
    for folder in (settings.home / name for name in INSIDE):
        if folder.is_symlink():
            raise PreconditionFailed(
                f"{folder} is a link, and only a folder can be moved in: "
                f"run `rm {folder} && mv {folder.resolve()} {folder}` first."
            )


def _check_computes(settings: Settings) -> None:
    running = sum(postmaster.is_alive(data) for data in settings.home.glob("volumes/*/data"))
    if running:
        line = output.our_command("down", settings.home)
        some = "A compute still runs" if running == 1 else f"{running} computes still run"
        raise PreconditionFailed(f"{some} in {settings.home}: run `{line}` first.")


def _check_file(planned: Image) -> None:
    folder = planned.file.parent
    if not folder.is_dir():
        raise NotFound(f"The folder {folder} does not exist: run `mkdir -p {folder}`, or give another --image PATH.")
    for file in (planned.file, planned.making):
        if file.exists():
            raise Taken(f"The file {file} exists already: remove it, or give another --image PATH.")


def _check_free(planned: Image, floor: int) -> None:
    free = shutil.disk_usage(planned.file.parent).free
    if free - planned.size < floor:
        raise PreconditionFailed(
            f"The disk of {planned.file.parent} has {amounts.in_words(free)} free: an image of "
            f"{amounts.in_words(planned.size)} would leave less than {amounts.in_words(floor)} (free_space_floor). "
            "Give a smaller --size, or --thin, which takes room only as it is needed."
        )

"""What keeps `bough storage init` from beginning. In each sentence is what to do about it."""

import shutil

import typer

from bough import byte_sizes
from bough.cli import output
from bough.config import Settings, is_root
from bough.engine.local.computes import postmaster
from bough.engine.local.images import image_setup
from bough.engine.local.images.image import IMAGE_FOLDERS, Image
from bough.errors import Conflict, NotFound, PreconditionFailed

MIN_SIZE = 1024**3


def require_root(settings: Settings, size: str) -> None:
    if not is_root():
        line = output.format_command(f"storage init --size {size}", settings.home)
        raise PreconditionFailed(f"Only root can make and mount an image: run `sudo {line}`.")


def parse_size(text: str) -> int:
    size = byte_sizes.parse_bytes(text)
    if size is None:
        raise typer.BadParameter(f"{text!r} is no size; write it like 50G, 500M or 1T.", param_hint="'--size'")
    if size < MIN_SIZE:
        raise typer.BadParameter(f"{text} is too small; an image has at least 1G.", param_hint="'--size'")
    return size // 4096 * 4096


def check_home(planned: Image, settings: Settings) -> None:
    """Of a home that we hold; what an earlier try left is cleared away on the way, for it takes room."""
    present = Image.load(settings.home)
    if present is not None:
        line = output.format_command("storage status", settings.home)
        raise Conflict(f"{settings.home} has a storage image already, {present.file}; `{line}` shows it.")
    _check_folders(settings)
    _check_computes(settings)
    image_setup.remove_draft(settings.home)
    _check_file(planned)
    package = image_setup.find_missing_package(planned.fs)
    if package is not None:
        raise PreconditionFailed(f"mkfs.{planned.fs} is missing here: run `apt-get install {package}`.")
    if not planned.thin:
        _check_free(planned, settings.free_space_floor)


def _check_folders(settings: Settings) -> None:
    """What a link leads to is somebody's choice, and not ours to remove."""
    for folder in (settings.home / name for name in IMAGE_FOLDERS):
        if folder.is_symlink():
            raise PreconditionFailed(
                f"{folder} is a link, and only a folder can be moved in: "
                f"run `rm {folder} && mv {folder.resolve()} {folder}` first."
            )


def _check_computes(settings: Settings) -> None:
    running = sum(postmaster.is_alive(data) for data in settings.home.glob("volumes/*/data"))
    if running:
        line = output.format_command("down", settings.home)
        some = "A compute still runs" if running == 1 else f"{running} computes still run"
        raise PreconditionFailed(f"{some} in {settings.home}: run `{line}` first.")


def _check_file(planned: Image) -> None:
    folder = planned.file.parent
    if not folder.is_dir():
        raise NotFound(f"The folder {folder} does not exist: run `mkdir -p {folder}`, or give another --image PATH.")
    for file in (planned.file, planned.staging_file):
        if file.exists():
            raise Conflict(f"The file {file} exists already: remove it, or give another --image PATH.")


def _check_free(planned: Image, floor: int) -> None:
    free = shutil.disk_usage(planned.file.parent).free
    if free - planned.size < floor:
        raise PreconditionFailed(
            f"The disk of {planned.file.parent} has {byte_sizes.format_bytes(free)} free: an image of "
            f"{byte_sizes.format_bytes(planned.size)} would leave less than {byte_sizes.format_bytes(floor)} "
            "(free_space_floor). "
            "Give a smaller --size, or --thin, which takes room only as it is needed."
        )

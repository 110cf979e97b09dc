"""The preconditions of `bough storage init`. Each error message says what to do."""

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


def require_root(settings: Settings, arguments: str) -> None:
    if not is_root():
        command = output.format_command(f"storage init {arguments}", settings.home, as_root=True)
        raise PreconditionFailed(f"Only root can create and mount an image: run `sudo {command}`.")


def parse_size(text: str) -> int:
    size = byte_sizes.parse_bytes(text)
    if size is None:
        raise typer.BadParameter(f"{text!r} is not a size; write it like 50G, 500G or 1T.", param_hint="'--size'")
    if size < MIN_SIZE:
        raise typer.BadParameter(f"{text} is too small; the minimum is 1G.", param_hint="'--size'")
    return size // 4096 * 4096


def check_home(planned: Image, settings: Settings) -> None:
    """Check a home whose lock we hold. Remove what an interrupted attempt left, because it takes disk space."""
    existing = Image.load(settings.home)
    if existing is not None:
        command = output.format_command("storage status", settings.home)
        raise Conflict(f"{settings.home} already has a storage image, {existing.file}; show it with `{command}`.")
    _check_folders(settings)
    _check_computes(settings)
    image_setup.remove_draft(settings.home)
    _check_file(planned)
    package = image_setup.find_missing_package(planned.fs)
    if package is not None and planned.fs != "xfs":  # mkfs.xfs is downloaded
        raise PreconditionFailed(f"mkfs.{planned.fs} is not installed: run `apt-get install {package}`.")
    if not planned.thin:
        _check_free_space(planned, settings.free_space_floor)


def _check_folders(settings: Settings) -> None:
    """Reject symbolic links: the operator chose their targets, and we do not remove those."""
    for folder in (settings.home / name for name in IMAGE_FOLDERS):
        if folder.is_symlink():
            raise PreconditionFailed(
                f"{folder} is a symbolic link, and only a folder can be moved into the image: "
                f"run `rm {folder} && mv {folder.resolve()} {folder}` first."
            )


def _check_computes(settings: Settings) -> None:
    running = sum(postmaster.is_alive(data) for data in settings.home.glob("volumes/*/data"))
    if running:
        command = output.format_command("down", settings.home)
        subject = "A compute is" if running == 1 else f"{running} computes are"
        raise PreconditionFailed(f"{subject} still running in {settings.home}: run `{command}` first.")


def _check_file(planned: Image) -> None:
    folder = planned.file.parent
    if not folder.is_dir():
        raise NotFound(f"The folder {folder} does not exist: run `mkdir -p {folder}`, or choose another --image PATH.")
    for file in (planned.file, planned.staging_file):
        if file.exists():
            raise Conflict(f"The file {file} already exists: remove it, or choose another --image PATH.")


def _check_free_space(planned: Image, floor: int) -> None:
    free = shutil.disk_usage(planned.file.parent).free
    if free - planned.size < floor:
        raise PreconditionFailed(
            f"The disk of {planned.file.parent} has {byte_sizes.format_mb_or_gb(free)} free: an image of "
            f"{byte_sizes.format_mb_or_gb(planned.size)} would leave less than {byte_sizes.format_mb_or_gb(floor)} "
            "(setting 'free_space_floor'). "
            "Choose a smaller --size, or --thin, which allocates disk space only as it is needed."
        )

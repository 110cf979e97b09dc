"""`bough storage init`."""

import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from bough import byte_sizes, config
from bough.cli import options, output, progress
from bough.cli.storage import preconditions
from bough.engine.local.images import image_setup
from bough.engine.local.images.image import IMAGE_FILE, Image
from bough.engine.local.installs import mkfs_build
from bough.engine.local.os_errors import translate_os_errors
from bough.supervisor import home_lock, lock

DEFAULT_FILE_SYSTEM: Literal["xfs", "btrfs"] = "xfs"


def init(
    *,
    size: Annotated[str, typer.Option(metavar="SIZE", help="Size of the image, at least 1G: 50G, 500G, 1T.")],
    fs: Annotated[
        Literal["xfs", "btrfs"],
        typer.Option(metavar="xfs|btrfs", help="File system in the image.", show_default=True),
    ] = DEFAULT_FILE_SYSTEM,
    thin: Annotated[bool, typer.Option("--thin", help="Allocate disk space only as it is needed.")] = False,
    image: Annotated[
        Path | None, typer.Option(metavar="PATH", help="File to create. [default: storage.img in the home]")
    ] = None,
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """Create a storage image and move all volumes into it.

    Requires root and a stopped platform. From then on, `bough up` mounts the image. If anything
    fails before the end, the home stays as it was.
    """
    settings = config.load_settings({"home": home})
    preconditions.require_root(settings, _format_arguments(size, fs, thin, image))
    size_bytes = preconditions.parse_size(size)
    lock_fd = home_lock.acquire(settings)
    try:
        file = (image or settings.home / IMAGE_FILE).expanduser().absolute()
        planned = Image.plan(settings.home, file, fs=fs, thin=thin, size=size_bytes)
        with translate_os_errors():
            preconditions.check_home(planned, settings)
            with progress.display(bars=sys.stderr.isatty()) as report:
                fetch_mkfs = partial(mkfs_build.fetch, settings.cache, settings.debian_mirror, report)
                moved_bytes = image_setup.create_image(planned, settings.free_space_floor, report, fetch_mkfs)
    finally:
        lock.release(lock_fd)
    _show(planned, moved_bytes, json)


def _format_arguments(size: str, fs: str, thin: bool, image: Path | None) -> str:
    arguments = ["--size", size]
    arguments += [] if fs == DEFAULT_FILE_SYSTEM else ["--fs", fs]
    arguments += ["--thin"] if thin else []
    arguments += [] if image is None else ["--image", str(image.expanduser().absolute())]
    return shlex.join(arguments)


def _show(image: Image, moved_bytes: int, json: bool) -> None:
    if json:
        fields = {"image": str(image.file), "fs": image.fs, "thin": image.thin, "size": image.size}
        output.print_json({**fields, "mounted_at": str(image.mount_point), "moved_bytes": moved_bytes})
        return
    size = byte_sizes.format_mb_or_gb(image.size)
    output.print_text(f"The storage image {image.file} ({image.fs}, {size}) is mounted at {image.mount_point}.")
    if moved_bytes:
        output.print_text(f"Moved all volumes and templates into it ({byte_sizes.format_mb_or_gb(moved_bytes)}).")
    output.print_text(f"Start the platform with `{output.format_command('up', image.home)}`.")

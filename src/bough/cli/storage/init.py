"""`bough storage init`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from bough import byte_sizes, config
from bough.cli import options, output, progress
from bough.cli.storage import preconditions
from bough.engine.local.images import image_setup
from bough.engine.local.images.image import Image
from bough.engine.local.os_errors import translate_os_errors
from bough.supervisor import home_lock, lock

DEFAULT_FILE_SYSTEM: Literal["xfs", "btrfs"] = "xfs"


def init(
    *,
    size: Annotated[str, typer.Option(metavar="SIZE", help="How large, at least 1G: 50G, 500G, 1T.")],
    fs: Annotated[
        Literal["xfs", "btrfs"], typer.Option(metavar="xfs|btrfs", help="The file system in it.", show_default=True)
    ] = DEFAULT_FILE_SYSTEM,
    thin: Annotated[bool, typer.Option("--thin", help="Take room on the disk only as it is needed.")] = False,
    image: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where the file is made. [default: storage.img in the home]")
    ] = None,
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """Make a storage image and move all volumes into it.

    For root, on a platform that is stopped. From then on `bough up` mounts the image. Whatever goes
    wrong before the end, everything is as it was before.
    """
    settings = config.load_settings({"home": home})
    preconditions.require_root(settings, size)
    bytes_wished = preconditions.parse_size(size)
    held = home_lock.acquire(settings)
    try:
        file = (image or settings.home / "storage.img").expanduser().absolute()
        planned = Image.plan(settings.home, file, fs=fs, thin=thin, size=bytes_wished)
        with translate_os_errors():
            preconditions.check_home(planned, settings)
            with progress.display(bars=sys.stderr.isatty()) as report:
                moved = image_setup.create_image(planned, settings.free_space_floor, report)
    finally:
        lock.release(held)
    _show(planned, moved, json)


def _show(made: Image, moved: int, json: bool) -> None:
    if json:
        fields = {"image": str(made.file), "fs": made.fs, "thin": made.thin, "size": made.size}
        output.print_json({**fields, "mounted_at": str(made.mount_point), "moved_bytes": moved})
        return
    output.print_text(
        f"The storage image {made.file} ({made.fs}, {byte_sizes.format_bytes(made.size)}) is mounted at "
        f"{made.mount_point}."
    )
    if moved:
        output.print_text(f"It holds all volumes and templates, {byte_sizes.format_bytes(moved)}.")
    output.print_text(f"`{output.format_command('up', made.home)}` starts the platform on it.")

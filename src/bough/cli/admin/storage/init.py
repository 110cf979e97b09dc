"""`bough storage init`."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from bough import config
from bough.cli import output
from bough.cli.admin import amounts, homes, lock, options, progress
from bough.cli.admin.storage import refusals
from bough.engine.local.images import image_making
from bough.engine.local.images.image import Image
from bough.engine.local.refusals import machine_refusals

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
    settings = config.load({"home": home})
    refusals.check_root(settings, size)
    bytes_wished = refusals.checked_size(size)
    held = homes.hold(settings)
    try:
        file = (image or settings.home / "storage.img").expanduser().absolute()
        planned = Image.planned(settings.home, file, fs=fs, thin=thin, size=bytes_wished)
        with machine_refusals():
            refusals.check(planned, settings)
            with progress.shown(bars=sys.stderr.isatty()) as report:
                moved = image_making.make(planned, settings.free_space_floor, report)
    finally:
        lock.release(held)
    _show(planned, moved, json)


def _show(made: Image, moved: int, json: bool) -> None:
    if json:
        fields = {"image": str(made.file), "fs": made.fs, "thin": made.thin, "size": made.size}
        output.show_json({**fields, "mounted_at": str(made.root), "moved_bytes": moved})
        return
    output.say(f"The storage image {made.file} ({made.fs}, {amounts.in_words(made.size)}) is mounted at {made.root}.")
    if moved:
        output.say(f"It holds all volumes and templates, {amounts.in_words(moved)}.")
    output.say(f"`{output.our_command('up', made.home)}` starts the platform on it.")

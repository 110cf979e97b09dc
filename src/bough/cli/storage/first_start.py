"""Gives a new home a storage image at its first `bough up`, if its file system cannot share blocks."""

from functools import partial

from bough import byte_sizes
from bough.cli import output
from bough.config import Settings, is_root
from bough.engine.local.images import image_setup, new_home
from bough.engine.local.images.image import Image
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.port import EngineError

_PLAIN = "Branches will be full copies of their parents"


def ensure_storage_chosen(settings: Settings, *, show_progress: bool) -> None:
    """Create the image, or say why there is none. The caller holds the lock of the home."""
    if not new_home.is_new(settings):
        return
    try:
        with translate_os_errors():
            image_setup.remove_draft(settings.home)
            if not new_home.wants_image(settings):
                return
            image = new_home.plan_image(settings)
            _create(image, settings, show_progress)
    except EngineError as error:
        output.print_note(f"{output.colorize('warning')}: {_PLAIN}: {error.public_message} {_suggest(settings)}")
        return
    size = byte_sizes.format_mb_or_gb(image.size)
    output.print_note(f"Created the storage image {image.file} (at most {size}): branches share unchanged data.")


def _create(image: Image, settings: Settings, show_progress: bool) -> None:
    from bough.cli import progress  # noqa: PLC0415 - slow to import; only a first start needs it
    from bough.engine.local.installs import mkfs_build  # noqa: PLC0415

    with progress.display(bars=show_progress) as report:
        fetch_mkfs = partial(mkfs_build.fetch, settings.cache, settings.debian_mirror, report)
        image_setup.create_image(image, settings.free_space_floor, report, fetch_mkfs)


def _suggest(settings: Settings) -> str:
    if not is_root():
        return "Start a new home with sudo, or put it on btrfs or XFS with --home DIR."
    down, init = (output.format_command(each, settings.home) for each in ("down", "storage init --size 50G --thin"))
    return f"To get one later: `{down}`, then `{init}`."

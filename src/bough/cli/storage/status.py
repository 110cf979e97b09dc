"""`bough storage status`."""

import dataclasses
import sys
from typing import Any

import typer

from bough import config
from bough.byte_sizes import format_mb_or_gb
from bough.cli import options, output, progress
from bough.cli.doctor.folders import nearest_existing
from bough.cli.storage import usage
from bough.cli.storage.image_facts import describe_image, format_image
from bough.cli.storage.usage import VolumeUsage
from bough.engine.local import free_space
from bough.engine.local.folders import Folders
from bough.engine.local.images import mounts
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.volumes.driver_choice import choose_driver

SIZE_WIDTH = 9  # characters
COLUMNS = ("project", "branch", "volume", "endpoint", *(f"{name:>{SIZE_WIDTH}}" for name in ("own", "shared", "total")))


def status(home: options.Home = None, json: options.Json = False) -> None:
    """Show the disk usage of volumes and the free space.

    Deleting a volume frees its own bytes. Shared bytes belong to other volumes as well, and count
    for each of them. Exits with status 1 when the storage image is not mounted.
    """
    settings = config.load_settings({"home": home})
    with translate_os_errors():
        folders = Folders(settings)
        facts = {**_collect_facts(settings, folders), "archived": usage.measure_archive(folders)}
        volumes = _measure_volumes(settings, folders)
    if json:
        output.print_json({**facts, "volumes": [_with_total(volume) for volume in volumes]})
    else:
        _show(facts, volumes)
    if facts["image"] and not facts["image"]["mounted"]:
        raise typer.Exit(1)


def _measure_volumes(settings: config.Settings, folders: Folders) -> list[VolumeUsage]:
    if not folders.volumes.is_dir():
        return []
    with progress.display(bars=True) if sys.stderr.isatty() else progress.discard() as report:
        return usage.measure_volumes(settings, folders, report)


def _collect_facts(settings: config.Settings, folders: Folders) -> dict[str, Any]:
    known = {
        "folder": str(folders.volumes),
        "image": describe_image(folders.image),
        "floor": settings.free_space_floor,
    }
    rejection = free_space.explain_rejection(folders, settings.free_space_floor)
    if folders.image is not None and not folders.image.is_mounted():
        return {**known, "driver": None, "file_system": None, "size": None, "free": None, "refuses_new": rejection}
    folder = nearest_existing(folders.volumes)
    free, size = free_space.measure_space(folders, settings.free_space_floor)
    return {
        **known,
        "driver": choose_driver(settings.storage, folder).name,
        "file_system": mounts.find_file_system(folder),
        "size": size,
        "free": free,
        "refuses_new": rejection,
    }


def _with_total(volume: VolumeUsage) -> dict[str, Any]:
    return {**dataclasses.asdict(volume), "total": volume.total}


def _show(facts: dict[str, Any], volumes: list[VolumeUsage]) -> None:
    image = facts["image"]
    rows = [("volumes", facts["folder"])]
    if image:
        rows.append(("image", format_image(image)))
    if facts["driver"]:
        rows += [("driver", facts["driver"]), ("file system", facts["file_system"])]
        rows.append(("free", f"{format_mb_or_gb(facts['free'])} of {format_mb_or_gb(facts['size'])}"))
    rows.append(("archived WAL", format_mb_or_gb(facts["archived"])))
    rows += [
        ("free space floor", format_mb_or_gb(facts["floor"])),
        ("new projects", facts["refuses_new"] or "accepted"),
    ]
    output.print_table(rows)
    if volumes:
        output.print_text()
        _show_volumes(volumes)


def _show_volumes(volumes: list[VolumeUsage]) -> None:
    own, shared = sum(volume.own for volume in volumes), sum(volume.shared for volume in volumes)
    count = f"{len(volumes)} volume{'' if len(volumes) == 1 else 's'}"
    rows = [
        (
            _format_project(volume),
            _format_branch(volume),
            volume.volume,
            volume.endpoint or "-",
            *_format_sizes(volume.own, volume.shared),
        )
        for volume in volumes
    ]
    output.print_table([COLUMNS, *rows, (count, "", "", "", *_format_sizes(own, shared))])


def _format_project(volume: VolumeUsage) -> str:
    return "(warm pool)" if volume.is_spare else volume.project or volume.project_id or "-"


def _format_branch(volume: VolumeUsage) -> str:
    kind = " (replica)" if volume.replica else " (history)" if volume.base else ""
    if volume.snapshot is not None:
        kind = f" (snapshot {volume.snapshot})"
    return f"{volume.branch or '-'}{kind}"


def _format_sizes(own: int, shared: int) -> tuple[str, ...]:
    return tuple(f"{format_mb_or_gb(size):>{SIZE_WIDTH}}" for size in (own, shared, own + shared))

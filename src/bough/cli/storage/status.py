"""`bough storage status`."""

import dataclasses
import os
import sys
from typing import Any

import typer

from bough import byte_sizes, config
from bough.cli import options, output, progress
from bough.cli.doctor.folders import nearest_existing
from bough.cli.storage import usage
from bough.cli.storage.usage import VolumeUsage
from bough.engine.local import free_space
from bough.engine.local.folders import Folders
from bough.engine.local.images import mounts
from bough.engine.local.images.image import Image
from bough.engine.local.os_errors import translate_os_errors
from bough.engine.local.volumes.driver_choice import choose_driver

SIZE_WIDTH = 9  # of an amount
COLUMNS = ("project", "branch", "volume", "endpoint", *(f"{name:>{SIZE_WIDTH}}" for name in ("own", "shared", "total")))


def status(home: options.Home = None, json: options.Json = False) -> None:
    """Show what volumes take, and how much is free.

    Own bytes would be free without the volume; shared ones belong to others as well, and count for
    each of them. Exits with 1 when the storage image is not mounted.
    """
    settings = config.load_settings({"home": home})
    with translate_os_errors():
        folders = Folders(settings)
        facts = {**_facts(settings, folders), "archived": usage.measure_archive(folders)}
        volumes = _volumes(settings, folders)
    if json:
        output.print_json({**facts, "volumes": [_with_total(each) for each in volumes]})
    else:
        _show(facts, volumes)
    if facts["image"] and not facts["image"]["mounted"]:
        raise typer.Exit(1)


def _volumes(settings: config.Settings, folders: Folders) -> list[VolumeUsage]:
    if not folders.volumes.is_dir():
        return []
    with progress.display(bars=True) if sys.stderr.isatty() else progress.discard() as report:
        return usage.measure_volumes(settings, folders, report)


def _facts(settings: config.Settings, folders: Folders) -> dict[str, Any]:
    known = {"folder": str(folders.volumes), "image": _image(folders.image), "floor": settings.free_space_floor}
    refusal = free_space.explain_rejection(folders, settings.free_space_floor)
    if folders.image is not None and not folders.image.is_mounted():
        return {**known, "driver": None, "file_system": None, "size": None, "free": None, "refuses_new": refusal}
    folder = nearest_existing(folders.volumes)
    room = os.statvfs(folder)
    return {
        **known,
        "driver": choose_driver(settings.storage, folder).name,
        "file_system": mounts.find_file_system(folder),
        "size": room.f_blocks * room.f_frsize,
        "free": room.f_bavail * room.f_frsize,
        "refuses_new": refusal,
    }


def _image(image: Image | None) -> dict[str, Any] | None:
    if image is None:
        return None
    allocated = image.file.stat().st_blocks * 512 if image.file.exists() else 0
    return {
        "file": str(image.file),
        "size": image.size,
        "allocated": allocated,
        "thin": image.thin,
        "mounted": image.is_mounted(),
    }


def _with_total(each: VolumeUsage) -> dict[str, Any]:
    return {**dataclasses.asdict(each), "total": each.total}


def _show(facts: dict[str, Any], volumes: list[VolumeUsage]) -> None:
    words = byte_sizes.format_bytes
    image = facts["image"]
    rows = [("volumes", facts["folder"])]
    if image:
        thin = "thin, " if image["thin"] else ""
        rows.append(("image", f"{image['file']} ({thin}{words(image['size'])}, {words(image['allocated'])} taken)"))
    if facts["driver"]:
        rows += [("driver", facts["driver"]), ("file system", facts["file_system"])]
        rows.append(("free", f"{words(facts['free'])} of {words(facts['size'])}"))
    rows.append(("archived WAL", words(facts["archived"])))
    rows += [("floor", words(facts["floor"])), ("new projects", facts["refuses_new"] or "are made")]
    output.print_table(rows)
    if volumes:
        output.print_text()
        _show_volumes(volumes)


def _show_volumes(volumes: list[VolumeUsage]) -> None:
    own, shared = sum(each.own for each in volumes), sum(each.shared for each in volumes)
    count = f"{len(volumes)} volume{'' if len(volumes) == 1 else 's'}"
    rows = [
        (_project(each), _branch(each), each.volume, each.endpoint or "-", *_sizes(each.own, each.shared))
        for each in volumes
    ]
    output.print_table([COLUMNS, *rows, (count, "", "", "", *_sizes(own, shared))])


def _project(each: VolumeUsage) -> str:
    return "(warm pool)" if each.is_spare else each.project or each.project_id or "-"


def _branch(each: VolumeUsage) -> str:
    kind = " (replica)" if each.replica else " (history)" if each.base else ""
    if each.snapshot is not None:
        kind = f" (snapshot {each.snapshot})"
    return f"{each.branch or '-'}{kind}"


def _sizes(own: int, shared: int) -> tuple[str, ...]:
    return tuple(f"{byte_sizes.format_bytes(count):>{SIZE_WIDTH}}" for count in (own, shared, own + shared))

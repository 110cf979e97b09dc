"""`bough storage status`."""

import dataclasses
import os
import sys
from typing import Any

import typer

from bough import config
from bough.cli import output
from bough.cli.admin import amounts, options, progress
from bough.cli.admin.folders import nearest
from bough.cli.admin.storage import taken
from bough.cli.admin.storage.taken import Taken
from bough.engine.local import space
from bough.engine.local.folders import Folders
from bough.engine.local.images import mounts
from bough.engine.local.images.image import Image
from bough.engine.local.refusals import machine_refusals
from bough.engine.local.volumes.detect import choose

WIDEST = 9  # of an amount
COLUMNS = ("project", "branch", "volume", "endpoint", *(f"{name:>{WIDEST}}" for name in ("own", "shared", "total")))


def status(home: options.Home = None, json: options.Json = False) -> None:
    """Show what volumes take, and how much is free.

    Own bytes would be free without the volume; shared ones belong to others as well, and count for
    each of them. Exits with 1 when the storage image is not mounted.
    """
    settings = config.load({"home": home})
    with machine_refusals():
        folders = Folders(settings)
        facts = {**_facts(settings, folders), "archived": taken.archived(folders)}
        volumes = _volumes(settings, folders)
    if json:
        output.show_json({**facts, "volumes": [_with_total(each) for each in volumes]})
    else:
        _show(facts, volumes)
    if facts["image"] and not facts["image"]["mounted"]:
        raise typer.Exit(1)


def _volumes(settings: config.Settings, folders: Folders) -> list[Taken]:
    if not folders.volumes.is_dir():
        return []
    with progress.shown(bars=True) if sys.stderr.isatty() else progress.silent() as report:
        return taken.every(settings, folders, report)


def _facts(settings: config.Settings, folders: Folders) -> dict[str, Any]:
    known = {"folder": str(folders.volumes), "image": _image(folders.image), "floor": settings.free_space_floor}
    refusal = space.refusal(folders, settings.free_space_floor)
    if folders.image is not None and not folders.image.is_mounted():
        return {**known, "driver": None, "file_system": None, "size": None, "free": None, "refuses_new": refusal}
    folder = nearest(folders.volumes)
    room = os.statvfs(folder)
    return {
        **known,
        "driver": choose(settings.storage, folder).name,
        "file_system": mounts.file_system_of(folder),
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


def _with_total(each: Taken) -> dict[str, Any]:
    return {**dataclasses.asdict(each), "total": each.total}


def _show(facts: dict[str, Any], volumes: list[Taken]) -> None:
    words = amounts.in_words
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
    output.table(rows)
    if volumes:
        output.say()
        _show_volumes(volumes)


def _show_volumes(volumes: list[Taken]) -> None:
    own, shared = sum(each.own for each in volumes), sum(each.shared for each in volumes)
    count = f"{len(volumes)} volume{'' if len(volumes) == 1 else 's'}"
    rows = [
        (_project(each), _branch(each), each.volume, each.endpoint or "-", *_sizes(each.own, each.shared))
        for each in volumes
    ]
    output.table([COLUMNS, *rows, (count, "", "", "", *_sizes(own, shared))])


def _project(each: Taken) -> str:
    return "(warm pool)" if each.spare else each.project or each.project_id or "-"


def _branch(each: Taken) -> str:
    kind = " (replica)" if each.replica else " (history)" if each.base else ""
    if each.snapshot is not None:
        kind = f" (snapshot {each.snapshot})"
    return f"{each.branch or '-'}{kind}"


def _sizes(own: int, shared: int) -> tuple[str, ...]:
    return tuple(f"{amounts.in_words(count):>{WIDEST}}" for count in (own, shared, own + shared))

"""The place where a volume's WAL is archived, and the link by which its server finds it.

The place is the project's, for its server writes there. The link is in the volume's folder, which is ours.
"""

import os
from contextlib import suppress
from pathlib import Path

from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.volumes.folder import VolumeFolder


def ensure_archive(folder: VolumeFolder, archive: Path, owner: Identity) -> None:
    """Two looks when they are there. Nothing is synced: what a power cut takes is made again at the next start."""
    if not _is_owned(archive, owner):
        with suppress(FileExistsError):
            archive.mkdir(mode=0o700)
        os.chown(archive, owner.uid, owner.gid)
    link_archive(folder.archive_link, archive)


def link_archive(link: Path, archive: Path) -> None:
    aim = os.path.relpath(archive, link.parent)  # relative: a home may be moved
    if _link_target(link) == aim:
        return
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(aim)
    fresh.rename(link)


def _is_owned(place: Path, owner: Identity) -> bool:
    try:
        return place.stat().st_uid == owner.uid
    except FileNotFoundError:
        return False


def _link_target(link: Path) -> str | None:
    try:
        return os.readlink(link)  # noqa: PTH115 - as it is written
    except OSError:
        return None

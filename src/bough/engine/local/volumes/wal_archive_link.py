"""The archive folder of a volume, and the link through which the volume's server finds it.

The folder belongs to the project's user, because the server writes to it. The link is in the volume's folder, which is
the platform's.
"""

import os
from contextlib import suppress
from pathlib import Path

from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.volumes.folder import VolumeFolder


def ensure_wal_archive(folder: VolumeFolder, archive: Path, owner: Identity) -> None:
    """Ensure that the archive and its link exist.

    Nothing is synced: what a power failure removes is created again at the next start.
    """
    if not _is_owned(archive, owner):
        with suppress(FileExistsError):
            archive.mkdir(mode=0o700)
        os.chown(archive, owner.uid, owner.gid)
    link_wal_archive(folder.wal_archive_link, archive)


def link_wal_archive(link: Path, archive: Path) -> None:
    target = os.path.relpath(archive, link.parent)  # relative, because a home may be moved
    if _link_target(link) == target:
        return
    new_link = link.with_name(f".{link.name}.new")
    new_link.unlink(missing_ok=True)
    new_link.symlink_to(target)
    new_link.rename(link)


def _is_owned(archive: Path, owner: Identity) -> bool:
    try:
        return archive.stat().st_uid == owner.uid
    except FileNotFoundError:
        return False


def _link_target(link: Path) -> str | None:
    try:
        return os.readlink(link)  # noqa: PTH115 - the text of the link, not a normalized path
    except OSError:
        return None

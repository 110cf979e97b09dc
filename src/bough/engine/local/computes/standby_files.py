"""The files that make a server a standby: standby.signal in its data directory, and the password file for its primary.

A standby without a primary is read-only and does not change.
"""

import os
from pathlib import Path

from bough.engine.local.durable_files import write_atomically
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import create_file, entry_exists, unlink
from bough.engine.local.volumes.folder import VolumeFolder
from bough.postgres import replication


def create_signal(data: Path, owner: Identity) -> None:
    """Make the next server of the data directory a standby."""
    create_file(replication.SIGNAL_FILE, data, None if owner.is_current_user else (owner.uid, owner.gid))


def remove_signal(data: Path) -> None:
    """Make the next server of the data directory writable. It recovers as after a crash."""
    unlink(replication.SIGNAL_FILE, data)


def has_signal(data: Path) -> bool:
    """Return whether the server of the data directory is a standby. The file changes only before a server starts."""
    return entry_exists(replication.SIGNAL_FILE, data)


def passfile_path(folder: VolumeFolder) -> Path:
    return folder.conf / "replication.pass"


def write_passfile(folder: VolumeFolder, password: str) -> None:
    """Postgres reads it only if the server's user owns it and no other user has access."""
    path, text, owner = passfile_path(folder), replication.render_passfile(password), folder.owner
    if path.exists() and path.read_text(errors="replace") == text and path.stat().st_uid == owner.uid:
        return
    write_atomically(path, text)
    if not owner.is_current_user:
        os.chown(path, owner.uid, owner.gid)

"""What makes a server a standby: a file in its data folder. To follow another it has a password, in a file that only
it can read; without anybody to follow it stands still, and nothing can be written in it.
"""

import os
from pathlib import Path

from bough.engine.local.durable_files import write_atomically
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import create_file, entry_exists, unlink
from bough.engine.local.volumes.folder import VolumeFolder
from bough.postgres import replication


def create_signal(data: Path, owner: Identity) -> None:
    """The next server of the data folder is a standby."""
    create_file(replication.SIGNAL_FILE, data, None if owner.is_current_user else (owner.uid, owner.gid))


def remove_signal(data: Path) -> None:
    """The next server of the data folder writes. One that stood still reads on where it ended, as after a crash."""
    unlink(replication.SIGNAL_FILE, data)


def has_signal(data: Path) -> bool:
    """Whether its server is a standby, if it has one: the mark is made and taken away before a server starts."""
    return entry_exists(replication.SIGNAL_FILE, data)


def passfile_path(folder: VolumeFolder) -> Path:
    return folder.conf / "replication.pass"


def write_passfile(folder: VolumeFolder, password: str) -> None:
    """Postgres reads it only when it is the server's own and closed to all others. The folder around it is ours."""
    path, text, owner = passfile_path(folder), replication.render_passfile(password), folder.owner
    if path.exists() and path.read_text(errors="replace") == text and path.stat().st_uid == owner.uid:
        return
    write_atomically(path, text)
    if not owner.is_current_user:
        os.chown(path, owner.uid, owner.gid)

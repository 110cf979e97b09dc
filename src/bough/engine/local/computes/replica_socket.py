"""How a read replica reaches the socket of the server it follows.

A socket's folder lets nobody pass but the gateway. Beside it stands another, which the project's user can pass
and nobody but us can change, with a second name of the same socket in it. A server that starts again has a new
socket: until that is linked, whoever comes by the side door finds it closed, and comes again.
"""

import os
import stat
from pathlib import Path

from bough.engine.local.folders import SOCKET_NAME, check_socket_path
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.port import EngineError


def ensure_link(sockets: Path, folder: Path, owner: Identity) -> None:
    """The door leads to the socket in the folder, which must be sealed. May be repeated."""
    check_socket_path(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _leads_to(folder, sockets):
        _link(sockets / SOCKET_NAME, folder / SOCKET_NAME)
    seen = folder.stat()
    if not owner.is_current_user and (seen.st_gid, stat.S_IMODE(seen.st_mode)) != (owner.gid, 0o710):
        os.chown(folder, -1, owner.gid)
        folder.chmod(0o710)


def _leads_to(door: Path, sockets: Path) -> bool:
    try:
        return os.path.samestat((door / SOCKET_NAME).lstat(), (sockets / SOCKET_NAME).lstat())
    except FileNotFoundError:
        return False


def _link(socket: Path, name: Path) -> None:
    fresh = name.with_name(".new")
    fresh.unlink(missing_ok=True)
    os.link(socket, fresh, follow_symlinks=False)
    if not stat.S_ISSOCK(fresh.lstat().st_mode):
        fresh.unlink()
        raise EngineError("The compute replaced its socket by something else: suspend it.", transient=False)
    fresh.rename(name)

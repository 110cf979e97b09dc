"""The sockets that Postgres clients come by. The supervisor binds them and keeps them while workers come and go.

They are the same for all workers, which take clients in turn: those who wait are nobody's yet, and not lost
with a worker that dies. The door is a unix socket for clients on this machine.
"""

import grp
import os
import pwd
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bough.config import Settings, is_root
from bough.errors import InvalidSetting, PlatformError, Unavailable
from bough.supervisor import ports

BACKLOG = 4096  # clients that are held until they are accepted; the kernel may allow fewer
LOCAL_SOCKET_NAME = ".s.PGSQL.5432"  # clients find the socket by the folder and the usual port


@dataclass(frozen=True, slots=True)
class GatewayListeners:
    tcp: tuple[socket.socket, ...]  # one an address
    local: socket.socket

    def close(self) -> None:
        for listener in (*self.tcp, self.local):
            listener.close()


def count_workers(settings: Settings) -> int:
    return settings.gateway_workers or len(os.sched_getaffinity(0))


def local_socket_folder(settings: Settings) -> Path:
    return settings.sockets / "door"


def open_listeners(
    settings: Settings, port: int, inherited_fds: Sequence[int] = (), inherited_local_fd: int | None = None
) -> GatewayListeners:
    """What is needed now; of what a program before us had open, all that fits is kept and the rest closed."""
    had = [socket.socket(fileno=descriptor) for descriptor in inherited_fds]
    try:
        tcp = bind_listeners(ports.listen_addresses(settings), port, had)
    except OSError as error:
        raise make_port_error(port, "--gateway-port", error) from None
    for unfit in had:
        unfit.close()
    try:
        return GatewayListeners(tuple(tcp), _open_local_socket(settings, inherited_local_fd))
    except PlatformError:
        for listener in tcp:
            listener.close()
        raise


def bind_listeners(addresses: Sequence[str], port: int, inherited: list[socket.socket]) -> list[socket.socket]:
    """A listener for each address; those that fit are taken from `had`."""
    if not any(listener.getsockname()[1] == port for listener in inherited):  # else the port is ours already
        return _bind_new(addresses, port)
    return [_take_inherited(address, port, inherited) or _bind_listener(address, port) for address in addresses]


def make_port_error(port: int, flag: str, error: OSError) -> Unavailable:
    return Unavailable(
        f"Port {port} cannot be held: {error.strerror}. "
        f"Stop the program that has it, or give another port with {flag} N."
    )


def read_ports(listener_fds: Sequence[int]) -> set[int]:
    """The ports on which these open listeners are."""
    found = set()
    for descriptor in listener_fds:
        with socket.socket(fileno=os.dup(descriptor)) as listener:
            found.add(listener.getsockname()[1])
    return found


def _bind_new(addresses: Sequence[str], port: int) -> list[socket.socket]:
    with ports.lock_port(port):
        for address in addresses:
            ports.check_free(address, port)
        return [_bind_listener(address, port) for address in addresses]


def _take_inherited(address: str, port: int, had: list[socket.socket]) -> socket.socket | None:
    """That of those we had which is on this address; it is taken from them."""
    name = socket.getaddrinfo(address or "0.0.0.0", port, _family(address), socket.SOCK_STREAM)[0][4]  # noqa: S104
    found = next((one for one in had if one.getsockname() == name), None)
    if found is not None:
        had.remove(found)
    return found


def _bind_listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(_family(address), socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # For another address on our own port, while old workers still hold the one before.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _open_local_socket(settings: Settings, descriptor: int | None) -> socket.socket:
    """Open to its owner, and as root also to the group that `local_socket_group` names."""
    group = _group(settings)
    folder = local_socket_folder(settings)
    _ensure_folder(settings.sockets, 0o711 if is_root() else 0o700)
    _ensure_folder(folder, 0o700 if group is None else 0o710, group)
    path = folder / LOCAL_SOCKET_NAME
    try:
        door = _take_inherited_local_socket(path, descriptor) or _bind_local_socket(path)
        os.chown(path, -1, os.getegid() if group is None else group, follow_symlinks=False)
        path.chmod(0o600 if group is None else 0o660)
    except OSError as error:
        raise Unavailable(f"The socket {path} cannot be made: {error.strerror}.") from None
    door.setblocking(False)
    return door


def _take_inherited_local_socket(path: Path, descriptor: int | None) -> socket.socket | None:
    if descriptor is None:
        return None
    had = socket.socket(fileno=descriptor)
    if had.getsockname() == str(path) and path.is_socket():
        return had
    had.close()
    return None


def _bind_local_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # of a platform that was killed: we hold the home's lock
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind(str(path))
        door.listen(BACKLOG)
    except OSError:
        door.close()
        raise
    return door


def _group(settings: Settings) -> int | None:
    name = settings.local_socket_group
    if not name or not is_root():
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise InvalidSetting(
            f"local_socket_group: there is no group {name!r}; add it with `groupadd {name}`."
        ) from None


def remove_local_socket(settings: Settings) -> None:
    (local_socket_folder(settings) / LOCAL_SOCKET_NAME).unlink(missing_ok=True)


def has_gateway_user(settings: Settings) -> bool:
    """Control adds it at the first start as root; otherwise it is us."""
    if not is_root():
        return True
    try:
        pwd.getpwnam(settings.gateway_user)
    except KeyError:
        return False
    return True


def ensure_gateway_folder(settings: Settings) -> None:
    """It is theirs alone."""
    folder = settings.gateway_folder
    _ensure_folder(folder, 0o700)
    if is_root():
        account = pwd.getpwnam(settings.gateway_user)
        os.chown(folder, account.pw_uid, account.pw_gid)


def _ensure_folder(path: Path, mode: int, group: int | None = None) -> None:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        seen = path.lstat()
        if not stat.S_ISDIR(seen.st_mode) or (seen.st_uid != os.geteuid() and not is_root()):
            raise Unavailable(f"{path} is no folder of ours: remove it.")  # a temporary one's name can be guessed
        if group is not None and seen.st_gid != group:
            os.chown(path, -1, group)
        if stat.S_IMODE(seen.st_mode) != mode:
            path.chmod(mode)
    except OSError as error:
        raise Unavailable(f"The folder {path} cannot be made or used: {error.strerror}.") from None

"""The sockets that Postgres clients connect to. The supervisor binds and keeps them while workers come and go.

All workers share them and take turns accepting, so clients that wait in the backlog are not lost when a worker dies.
A Unix socket serves clients on this machine.
"""

import grp
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bough.config import Settings, is_root
from bough.errors import InvalidSetting, PlatformError, Unavailable
from bough.supervisor import ports
from bough.supervisor.gateway_user import ensure_folder

BACKLOG = 4096  # clients that wait to be accepted; the kernel may allow fewer
LOCAL_SOCKET_NAME = ".s.PGSQL.5432"  # libpq derives this name from the folder and the default port


@dataclass(frozen=True, slots=True)
class GatewayListeners:
    tcp: tuple[socket.socket, ...]  # one per address
    local: socket.socket

    def close(self) -> None:
        for listener in (*self.tcp, self.local):
            listener.close()


def local_socket_folder(settings: Settings) -> Path:
    return settings.sockets / "door"  # the name is part of the layout on disk


def open_listeners(
    settings: Settings, port: int, inherited_fds: Sequence[int] = (), inherited_local_fd: int | None = None
) -> GatewayListeners:
    """Open the listeners. Reuse the inherited sockets that match and close the others."""
    inherited = [socket.socket(fileno=fd) for fd in inherited_fds]
    try:
        tcp = bind_listeners(ports.listen_addresses(settings), port, inherited)
    except OSError as error:
        raise make_port_error(port, "--gateway-port", error) from None
    for unused in inherited:
        unused.close()
    try:
        return GatewayListeners(tuple(tcp), _open_local_socket(settings, inherited_local_fd))
    except PlatformError:
        for listener in tcp:
            listener.close()
        raise


def bind_listeners(addresses: Sequence[str], port: int, inherited: list[socket.socket]) -> list[socket.socket]:
    """Return a listener for each address; remove those that it reuses from `inherited`."""
    is_ours = any(listener.getsockname()[1] == port for listener in inherited)
    if not is_ours:
        return _bind_new(addresses, port)
    return [_take_inherited(address, port, inherited) or _bind_listener(address, port) for address in addresses]


def make_port_error(port: int, flag: str, error: OSError) -> Unavailable:
    return Unavailable(
        f"Cannot listen on port {port}: {error.strerror}. "
        f"Stop the program that uses it, or choose another port with {flag} N."
    )


def read_ports(listener_fds: Sequence[int]) -> set[int]:
    """Return the ports that these open listeners are bound to."""
    bound = set()
    for fd in listener_fds:
        with socket.socket(fileno=os.dup(fd)) as listener:
            bound.add(listener.getsockname()[1])
    return bound


def _bind_new(addresses: Sequence[str], port: int) -> list[socket.socket]:
    with ports.lock_port(port):
        for address in addresses:
            ports.check_free(address, port)
        return [_bind_listener(address, port) for address in addresses]


def _take_inherited(address: str, port: int, inherited: list[socket.socket]) -> socket.socket | None:
    """Remove the socket bound to this address from `inherited` and return it."""
    name = socket.getaddrinfo(address or "0.0.0.0", port, _family(address), socket.SOCK_STREAM)[0][4]  # noqa: S104
    match = next((listener for listener in inherited if listener.getsockname() == name), None)
    if match is not None:
        inherited.remove(match)
    return match


def _bind_listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(_family(address), socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Allows another address on the same port while old workers still hold the previous one.
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


def _open_local_socket(settings: Settings, inherited_fd: int | None) -> socket.socket:
    """Open the local socket to its owner and, as root, to the group in the setting `local_socket_group`."""
    group = _find_group(settings)
    folder = local_socket_folder(settings)
    ensure_folder(settings.sockets, 0o711 if is_root() else 0o700)
    ensure_folder(folder, 0o700 if group is None else 0o710, group)
    path = folder / LOCAL_SOCKET_NAME
    try:
        listener = _take_inherited_local_socket(path, inherited_fd) or _bind_local_socket(path)
        os.chown(path, -1, os.getegid() if group is None else group, follow_symlinks=False)
        path.chmod(0o600 if group is None else 0o660)
    except OSError as error:
        raise Unavailable(f"The socket {path} cannot be created: {error.strerror}.") from None
    listener.setblocking(False)
    return listener


def _take_inherited_local_socket(path: Path, fd: int | None) -> socket.socket | None:
    if fd is None:
        return None
    listener = socket.socket(fileno=fd)
    if listener.getsockname() == str(path) and path.is_socket():
        return listener
    listener.close()
    return None


def _bind_local_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # left by a killed platform: we hold the lock of the home
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _find_group(settings: Settings) -> int | None:
    name = settings.local_socket_group
    if not name or not is_root():
        return None
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise InvalidSetting(
            f"local_socket_group: there is no group {name!r}; create it with `groupadd {name}`."
        ) from None


def remove_local_socket(settings: Settings) -> None:
    (local_socket_folder(settings) / LOCAL_SOCKET_NAME).unlink(missing_ok=True)

"""The sockets that Postgres clients come by. The supervisor binds them and keeps them while workers come and go.

Each worker has a slot with listeners of its own, all on one port (SO_REUSEPORT): the kernel spreads
clients over the slots, and holds those of a slot whose worker is being started again. The door, a
unix socket for clients on this machine, is one for all workers.
"""

import os
import pwd
import socket
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bough.cli.admin import ports
from bough.config import Settings, running_as_root
from bough.errors import Unavailable

WAITING = 4096  # clients that a slot holds until they are accepted; the kernel may allow fewer
DOOR_NAME = ".s.PGSQL.5432"  # clients find the socket by the folder and the usual port


@dataclass(frozen=True, slots=True)
class Listeners:
    slots: tuple[tuple[socket.socket, ...], ...]
    door: socket.socket

    @property
    def every(self) -> Iterator[socket.socket]:
        for slot in self.slots:
            yield from slot

    def close(self) -> None:
        for listener in (*self.every, self.door):
            listener.close()


def workers(settings: Settings) -> int:
    return settings.gateway_workers or len(os.sched_getaffinity(0))


def door_folder(settings: Settings) -> Path:
    return settings.sockets / "door"


def opened(settings: Settings, port: int, listeners: Sequence[int] = (), door: int | None = None) -> Listeners:
    """What is needed now; of what a program before us had open, all that fits is kept and the rest closed."""
    had = [socket.socket(fileno=descriptor) for descriptor in listeners]
    addresses = ports.gateway_addresses(settings)
    try:
        if not any(listener.getsockname()[1] == port for listener in had):  # else it is ours already
            by_address = _first_groups(addresses, port, workers(settings))
        else:
            by_address = [_group(address, port, workers(settings), had) for address in addresses]
    except OSError as error:
        raise Unavailable(f"Port {port} cannot be held: {error.strerror}.") from None
    for unfit in had:
        unfit.close()
    return Listeners(tuple(zip(*by_address, strict=True)), _door(settings, door))


def ports_of(listeners: Sequence[int]) -> set[int]:
    """The ports on which these open listeners are."""
    found = set()
    for descriptor in listeners:
        with socket.socket(fileno=os.dup(descriptor)) as listener:
            found.add(listener.getsockname()[1])
    return found


def _first_groups(addresses: Sequence[str], port: int, count: int) -> list[list[socket.socket]]:
    with ports.alone(port):
        for address in addresses:
            ports.check_unused(address, port)
        return [_group(address, port, count, []) for address in addresses]


def _group(address: str, port: int, count: int, had: list[socket.socket]) -> list[socket.socket]:
    """As many listeners on one address; those that are there already come first."""
    name = socket.getaddrinfo(address or "0.0.0.0", port, _family(address), socket.SOCK_STREAM)[0][4]  # noqa: S104
    group = [one for one in had if one.getsockname() == name][:count]
    for one in group:
        had.remove(one)
    return group + [_listener(address, port) for _ in range(count - len(group))]


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(_family(address), socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((address, port))
        listener.listen(WAITING)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _door(settings: Settings, descriptor: int | None) -> socket.socket:
    """As root every user of the machine may knock; SCRAM decides who comes in."""
    open_to_all = running_as_root()
    folder = door_folder(settings)
    _ensure_folder(settings.sockets, 0o711 if open_to_all else 0o700)
    _ensure_folder(folder, 0o755 if open_to_all else 0o700)
    path = folder / DOOR_NAME
    if descriptor is not None:
        had = socket.socket(fileno=descriptor)
        if had.getsockname() == str(path) and path.is_socket():
            return had
        had.close()
    path.unlink(missing_ok=True)  # of a platform that was killed: we hold the home's lock
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind(str(path))
        path.chmod(0o777 if open_to_all else 0o700)
        door.listen(WAITING)
    except OSError as error:
        door.close()
        raise Unavailable(f"The socket {path} cannot be made: {error.strerror}.") from None
    door.setblocking(False)
    return door


def remove_door(settings: Settings) -> None:
    (door_folder(settings) / DOOR_NAME).unlink(missing_ok=True)


def gateway_folder(settings: Settings) -> Path:
    """Where workers keep their locks and hear of one another's cancels."""
    return settings.sockets / "gateway"


def ensure_gateway_folder(settings: Settings) -> None:
    """It is theirs alone."""
    folder = gateway_folder(settings)
    _ensure_folder(folder, 0o700)
    if running_as_root():
        account = pwd.getpwnam(settings.gateway_user)
        os.chown(folder, account.pw_uid, account.pw_gid)


def _ensure_folder(path: Path, mode: int) -> None:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        seen = path.lstat()
        if not stat.S_ISDIR(seen.st_mode) or (seen.st_uid != os.geteuid() and not running_as_root()):
            raise Unavailable(f"{path} is no folder of ours: remove it.")  # a temporary one's name can be guessed
        if stat.S_IMODE(seen.st_mode) != mode:
            path.chmod(mode)
    except OSError as error:
        raise Unavailable(f"The folder {path} cannot be made or used: {error.strerror}.") from None

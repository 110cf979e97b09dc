"""The kernel's table of TCP sockets: which sockets listen on a port of this machine."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_FILES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"  # the state of a listening socket, see proc(5)


def is_listening(port: int, inodes: Collection[int]) -> bool:
    """Whether one of these sockets listens on the port."""
    return any(listener == (port, inode) for listener in _listeners() for inode in inodes)


def _listeners() -> Iterator[tuple[int, int]]:
    """Yield port and inode of every listening socket; the kernel lists them before all others."""
    for file in _FILES:
        with suppress(OSError), file.open() as lines:
            next(lines, None)
            for line in lines:
                fields = line.split()
                if fields[3] != _LISTEN:
                    break
                yield int(fields[1].rpartition(":")[2], 16), int(fields[9])

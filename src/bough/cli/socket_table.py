"""The kernel's table of TCP sockets: who listens on a port of this machine."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_FILES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTEN = "0A"  # state of a listening socket, as proc(5) writes it


def is_listening(port: int, inodes: Collection[int]) -> bool:
    """Whether one of these sockets listens on the port now."""
    return any(listener == (port, inode) for listener in _listeners() for inode in inodes)


def _listeners() -> Iterator[tuple[int, int]]:
    """Port and inode of every listening socket; the kernel lists them before all others."""
    for file in _FILES:
        with suppress(OSError), file.open() as lines:
            next(lines, None)
            for line in lines:
                words = line.split()
                if words[3] != _LISTEN:
                    break
                yield int(words[1].rpartition(":")[2], 16), int(words[9])

"""Maintains a block of lines in a hosts file (/etc/hosts) that other programs write too.

Two comments that name the owner enclose the block. Lines of other programs are never changed, not even inside the
block. The file is written in place, because containers mount that very file, and with a single write from the first
byte that differs, so that a reader never sees half of a change.
"""

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bough import clock
from bough.config import default_cache, is_root

LOCK_TIMEOUT = 2.0  # seconds that another owner has to finish

_OUR_LINE = re.compile(rb"\S+ ep-\S+")


def write_lines(path: Path, owner: str, lines: Sequence[str]) -> bool:
    """Replaces the lines of the block; without lines, removes it. Returns whether the file changed."""
    return _change(path, owner, lambda _existing: list(lines))


def add_line(path: Path, owner: str, line: str) -> bool:
    """Adds a line unless the block contains it. Returns whether the file changed."""
    return _change(path, owner, lambda existing: existing if line in existing else [*existing, line])


def _change(path: Path, owner: str, change: Callable[[list[str]], list[str]]) -> bool:
    with _open_locked(path) as fd:
        before = _read(fd)
        others, ours = _separate(before, owner)
        changed = change(ours)
        if changed == ours and (ours or others == before):
            return False
        after = _append_block(others, owner, changed)
        block_start = before.find(_markers(owner)[0])
        unchanged = len(before) if block_start < 0 else block_start
        os.pwrite(fd, after[unchanged:], unchanged)
        if len(after) < len(before):
            os.ftruncate(fd, len(after))
        return True


def _separate(content: bytes, owner: str) -> tuple[bytes, list[str]]:
    """Returns the content without our block, and the lines of our block."""
    begin, end = _markers(owner)
    others: list[bytes] = []
    ours: list[str] = []
    is_in_block = False
    for line in content.splitlines(keepends=True):
        stripped = line.strip()
        if stripped in {begin, end}:
            is_in_block = stripped == begin
        elif is_in_block and _OUR_LINE.match(stripped):
            ours.append(stripped.decode())
        else:
            others.append(line)
    return b"".join(others), ours


def _append_block(content: bytes, owner: str, ours: list[str]) -> bytes:
    if not ours:
        return content
    begin, end = _markers(owner)
    separator = b"" if not content or content.endswith(b"\n") else b"\n"
    return content + separator + b"\n".join([begin, *(line.encode() for line in ours), end, b""])


def _markers(owner: str) -> tuple[bytes, bytes]:
    return f"# begin of {owner}".encode(), f"# end of {owner}".encode()


@contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """Opens the file, locked against the other homes that change it."""
    with _locked(lock_file(path)):
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)


def lock_file(path: Path) -> Path:
    """A file of our own: any user who can read the hosts file could hold a lock on it forever."""
    folder = Path("/run/bough") if is_root() else default_cache()
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]
    return folder / f"hosts-{name}.lock"


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _acquire(fd, clock.monotonic() + LOCK_TIMEOUT)
        yield
    finally:
        os.close(fd)


def _acquire(fd: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _read(fd: int) -> bytes:
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        return file.read()

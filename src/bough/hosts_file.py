"""Maintains a block of lines in a shared hosts file (/etc/hosts).

Two comments that name its owner enclose the block. Lines of others are never changed, not even inside the block. The
file is written in place, because containers bind-mount it, and with a single write from the first byte that differs,
so that readers never see a partial change.
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

LOCK_TIMEOUT = 2.0  # seconds

_ENTRY = re.compile(rb"\S+ ep-\S+")


def write_lines(path: Path, owner: str, lines: Sequence[str]) -> bool:
    """Write exactly these lines; without lines the block is removed. Return whether the file changed."""
    return _change(path, owner, lambda _before: list(lines))


def add_line(path: Path, owner: str, line: str) -> bool:
    """Add a line if it is missing. Return whether the file changed."""
    return _change(path, owner, lambda before: before if line in before else [*before, line])


def _change(path: Path, owner: str, change: Callable[[list[str]], list[str]]) -> bool:
    with _open_locked(path) as descriptor:
        before = _read(descriptor)
        others, own = _split(before, owner)
        changed = change(own)
        if changed == own and (own or others == before):
            return False
        after = _append_block(others, owner, changed)
        block_start = before.find(_markers(owner)[0])
        unchanged = len(before) if block_start < 0 else block_start
        os.pwrite(descriptor, after[unchanged:], unchanged)
        if len(after) < len(before):
            os.ftruncate(descriptor, len(after))
        return True


def _split(content: bytes, owner: str) -> tuple[bytes, list[str]]:
    """The content without the block, and the entries of the block."""
    begin, end = _markers(owner)
    others: list[bytes] = []
    own: list[str] = []
    is_inside = False
    for line in content.splitlines(keepends=True):
        text = line.strip()
        if text in {begin, end}:
            is_inside = text == begin
        elif is_inside and _ENTRY.match(text):
            own.append(text.decode())
        else:
            others.append(line)
    return b"".join(others), own


def _append_block(content: bytes, owner: str, lines: list[str]) -> bytes:
    if not lines:
        return content
    begin, end = _markers(owner)
    separator = b"" if not content or content.endswith(b"\n") else b"\n"
    return content + separator + b"\n".join([begin, *(line.encode() for line in lines), end, b""])


def _markers(owner: str) -> tuple[bytes, bytes]:
    return f"# begin of {owner}".encode(), f"# end of {owner}".encode()


@contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """Open the file while no other home changes it."""
    with _locked(lock_file(path)):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def lock_file(path: Path) -> Path:
    """A separate lock file: anyone who can read the hosts file could lock it forever."""
    folder = Path("/run/bough") if is_root() else default_cache()
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:8]
    return folder / f"hosts-{name}.lock"


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _lock(descriptor, clock.monotonic() + LOCK_TIMEOUT)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _read(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()

"""A block of ours in a file of hosts (/etc/hosts) that belongs to everybody.

The block stands between two comments that name its owner; a line that somebody else wrote is never
changed, not even one inside the block. The file is written in place, because containers mount that
very file, and in one stroke from the first byte that differs, so a reader never meets half of it.
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

LOCK_TIMEOUT = 2.0  # seconds for another owner to finish

_OURS = re.compile(rb"\S+ ep-\S+")


def write_lines(path: Path, owner: str, lines: Sequence[str]) -> bool:
    """Exactly these lines; without any the block goes. Whether that changed the file."""
    return _change(path, owner, lambda _before: list(lines))


def add_line(path: Path, owner: str, line: str) -> bool:
    """One more line, unless it is there."""
    return _change(path, owner, lambda before: before if line in before else [*before, line])


def _change(path: Path, owner: str, change: Callable[[list[str]], list[str]]) -> bool:
    with _opened(path) as descriptor:
        before = _content(descriptor)
        others, ours = _apart(before, owner)
        wanted = change(ours)
        if wanted == ours and (ours or others == before):
            return False
        after = _appended(others, owner, wanted)
        begin = before.find(_marks(owner)[0])
        same = len(before) if begin < 0 else begin
        os.pwrite(descriptor, after[same:], same)
        if len(after) < len(before):
            os.ftruncate(descriptor, len(after))
        return True


def _apart(content: bytes, owner: str) -> tuple[bytes, list[str]]:
    """What others wrote, and our lines."""
    begin, end = _marks(owner)
    others: list[bytes] = []
    ours: list[str] = []
    inside = False
    for line in content.splitlines(keepends=True):
        bare = line.strip()
        if bare in {begin, end}:
            inside = bare == begin
        elif inside and _OURS.match(bare):
            ours.append(bare.decode())
        else:
            others.append(line)
    return b"".join(others), ours


def _appended(content: bytes, owner: str, ours: list[str]) -> bytes:
    if not ours:
        return content
    begin, end = _marks(owner)
    gap = b"" if not content or content.endswith(b"\n") else b"\n"
    return content + gap + b"\n".join([begin, *(line.encode() for line in ours), end, b""])


def _marks(owner: str) -> tuple[bytes, bytes]:
    return f"# begin of {owner}".encode(), f"# end of {owner}".encode()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The file, for us alone among all homes that change it."""
    with _locked(lock_file(path)):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def lock_file(path: Path) -> Path:
    """A file of our own: whoever may read the file of hosts could hold a lock on that for ever."""
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


def _content(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()

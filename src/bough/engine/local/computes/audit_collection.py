"""Copies the entries of the statement audit from what a server logs to a log that only the platform can write.

The position is stored after the entries, together with the size of the log at that time. So each entry is in the log
once, even if this process is killed between the two writes.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from bough import clock, log, log_rotation
from bough.engine.local.durable_files import write_atomically
from bough.engine.local.images import allocation
from bough.log import redact
from bough.postgres import audit_entries
from bough.postgres.audit_entries import StatementEntry
from bough.postgres.statement_audit import JSON_FILE

STATE_FILE = "position.json"
_PASS_BYTES = 64 * 1024**2  # read per pass, so that a compute which logs without end does not delay the others
_BLOCK = 1024**2
_HOLE_UNIT = 4096
# Above it, what was not read is discarded, so that no compute fills the disk. Twice the longest message of Postgres.
_MAX_UNREAD = 2 * 1024**3
_MAX_LENGTH = 1024**3  # of a file without contents, before it is shortened


logger = log.get_logger(component="engine")


@dataclass(frozen=True, slots=True)
class _CollectionState:
    position: int  # up to which the server's file was read
    size: int  # of the audit log at that time
    searched: int = 0  # up to which the end of an unfinished line was searched for

    @classmethod
    def read(cls, folder: Path) -> "_CollectionState":
        try:
            fields = json.loads((folder / STATE_FILE).read_text())
            return cls(int(fields["position"]), int(fields["size"]), int(fields.get("searched", 0)))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls(0, 0)

    def write(self, folder: Path) -> None:
        write_atomically(folder / STATE_FILE, json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRetention:
    file_bytes: int
    files_kept: int


def collect(folder: Path, audit_log: Path, retention: AuditRetention) -> int:
    """Copy the entries that are new. Return their number."""
    try:
        source = os.open(folder / JSON_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    target = os.open(audit_log, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        state = _repair(_CollectionState.read(folder), source, target)
        if state.size > retention.file_bytes:
            log_rotation.rotate(audit_log, retention.file_bytes, retention.files_kept)
            state = _CollectionState(state.position, 0)
            state.write(folder)
        state = _discard_excess(state, source, target, folder)
        return _copy(source, target, state, folder)
    finally:
        os.close(target)
        os.close(source)


def _repair(state: _CollectionState, source: int, target: int) -> _CollectionState:
    """Remove entries that were written without their position, and start again in a file that was truncated."""
    size = os.fstat(target).st_size
    if size != state.size:
        state = _CollectionState(state.position, state.size if size > state.size else 0)
        os.ftruncate(target, state.size)
    return state if os.fstat(source).st_size >= state.position else _CollectionState(0, state.size)


def _discard_excess(state: _CollectionState, source: int, target: int, folder: Path) -> _CollectionState:
    """Discard what was not read if it is too much, and record that in the audit log."""
    end = os.fstat(source).st_size
    if end - state.position <= _MAX_UNREAD:
        return state
    entry = StatementEntry(
        timestamp=clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        role=None,
        database=None,
        application=None,
        pid=0,
        session="",
        event=f"{end - state.position} bytes of the log were discarded, because it grew faster than it was read.",
    )
    written = _write_all(target, entry.to_json_line(), state.size)
    after = _CollectionState(end, state.size + written)
    after.write(folder)
    _release(source, end)
    logger.warning("audit_log_discarded", endpoint_id=folder.name, bytes=end - state.position)
    return after


def _copy(source: int, target: int, state: _CollectionState, folder: Path) -> int:
    lines = _Lines(source, state)
    written, count = state.size, 0
    for block in lines:
        text = b"".join(entry.to_json_line() for entry in block)
        written += _write_all(target, redact(text.decode("utf-8", "replace")).encode(), written)
        count += len(block)
    if (lines.position, lines.searched) != (state.position, state.searched):
        _CollectionState(lines.position, written, lines.searched).write(folder)
        _release(source, lines.position)
    return count


def _write_all(descriptor: int, data: bytes, position: int) -> int:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], position + done)
    return done


def shorten(folder: Path) -> None:
    """Empty the file of a server that does not run, if all of it was read and it became very long."""
    path, state = folder / JSON_FILE, _CollectionState.read(folder)
    if _MAX_LENGTH < path.stat().st_size == state.position:
        os.truncate(path, 0)
        _CollectionState(0, state.size).write(folder)


def _release(source: int, end: int) -> None:
    """Return the disk space of what was read. The file keeps its length, so that no message is lost."""
    with suppress(OSError):
        allocation.release(source, 0, end - end % _HOLE_UNIT)


class _Lines:
    """The audited lines of the file, block by block. `position` ends up after the last complete line."""

    def __init__(self, descriptor: int, state: _CollectionState) -> None:
        self._descriptor = descriptor
        self.position = state.position
        self.searched = state.searched
        begin = max(state.position, state.searched)
        self._end = min(os.fstat(descriptor).st_size, begin + _PASS_BYTES)

    def __iter__(self) -> Iterator[list[StatementEntry]]:
        while self.position < self._end:
            block = os.pread(self._descriptor, _BLOCK, self.position)
            complete = block.rfind(b"\n") + 1
            if complete:
                self.position += complete
                yield [each for each in map(audit_entries.parse_line, block[:complete].split(b"\n")) if each]
                continue
            start = self.position
            entry = self._read_long_line(block)
            if self.position == start:
                return  # the server has not finished the line
            yield [] if entry is None else [entry]

    def _read_long_line(self, block: bytes) -> StatementEntry | None:
        """Move the position after a line that is longer than a block, if it is complete, and return its entry.

        Only its beginning and end are kept. The search for its end continues in the next pass.
        """
        start, position = self.position, max(self.position + len(block), self.searched)
        while position < self._end and (more := os.pread(self._descriptor, _BLOCK, position)):
            found = more.find(b"\n") + 1
            position += found or len(more)
            if found:
                self.position, self.searched = position, 0
                tail_start = max(start, position - audit_entries.TAIL_BYTES)
                tail = os.pread(self._descriptor, position - tail_start, tail_start)
                return audit_entries.parse_long_line(block[: audit_entries.HEAD_BYTES], tail)
        self.searched = position
        return None

"""A spool: a folder with exactly the WAL files that one recovery needs.

Archived segments are hard-linked, so nothing is copied and pruning does no harm. A segment that is not archived yet is
cloned from `pg_wal`, where a server may be writing; it is removed there only after it was archived. All folders except
the spool belong to a tenant: they are held open, and no link in them is followed.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bough.engine.local.computes import wal_segments
from bough.engine.local.history.recovery_plan import WalRange
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_file_checks import TenantFileError, TooManyEntries
from bough.engine.local.tenant_files import descriptor_path, list_names, open_tenant_folder
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.port import EngineError
from bough.postgres import recovery, wal

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
_MAX_HISTORY_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WalSource:
    """Where the WAL of one volume is."""

    archive: Path
    pg_wal: Path | None  # None if the volume is retired

    def has_segment_after(self, timeline: int, number: int) -> bool:
        """Return whether there is a later segment of the timeline."""
        if any(_is_after(name, timeline, number) for name in _list_folder(self.archive)):
            return True
        pg_wal = self.pg_wal
        return pg_wal is not None and any(
            _is_after(name, timeline, number) and wal_segments.has_segment(pg_wal, name)
            for name in _list_folder(pg_wal)
        )


class Spool:
    """Its methods block; call them in a thread."""

    def __init__(self, folder: Path, owner: Identity, clone: Callable[[Path, Path], None]) -> None:
        self.folder = folder
        self._owner = owner
        self._clone = clone

    def create(self) -> None:
        """Create an empty folder that the owner may read."""
        self.remove()
        self.folder.mkdir(mode=0o700, parents=True)
        if not self._owner.is_current_user:
            os.chown(self.folder, -1, self._owner.gid)
            self.folder.chmod(0o750)

    def remove(self) -> None:
        remove_tree(self.folder)

    def fill(self, wal_range: WalRange, source: WalSource) -> None:
        """Add all segments of a bounded range."""
        last = wal_range.first - 1 if wal_range.last is None else wal_range.last
        for number in range(wal_range.first, last + 1):
            if not self._add(wal_range, number, source):
                raise _missing_segment(wal_range, number)

    def fill_to_end(self, wal_range: WalRange, source: WalSource, end: int | None) -> None:
        """Add the last range.

        A bounded range gets one more segment, so that the server reads a record past its target.

        `end` is the number of the last segment that must exist.
        """
        number = wal_range.first
        while (wal_range.last is None or number <= wal_range.last) and self._add(wal_range, number, source):
            number += 1
        if wal_range.last is not None and number > wal_range.last:
            self._add(wal_range, number, source)
        elif (end is not None and number <= end) or source.has_segment_after(wal_range.timeline, number):
            raise _missing_segment(wal_range, number)

    def add_timeline_histories(
        self, timelines: Iterable[int], sources: Iterable[WalSource], *, required: int | None
    ) -> None:
        """Add the history files of timelines that have one. Raises if that of the `required` timeline is missing."""
        all_sources = list(sources)
        for timeline in timelines:
            name = recovery.history_file_name(timeline)
            is_added = any(self._try_link(name, each) or self._try_clone(name, each) for each in all_sources)
            if timeline == required and not is_added:
                raise EngineError(f"The branch's history lacks the file {name}.", transient=False)

    def _add(self, wal_range: WalRange, number: int, source: WalSource) -> bool:
        """Try the archive again at the end: a segment may be archived and removed while it is cloned."""
        name = wal.segment_name_from_number(wal_range.timeline, number)
        return self._try_link(name, source) or self._try_clone(name, source) or self._try_link(name, source)

    def _try_link(self, name: str, source: WalSource) -> bool:
        try:
            with open_tenant_folder(source.archive) as archive:
                self._link(name, archive)
        except (FileNotFoundError, TenantFileError):
            return False
        if self._is_complete(name):
            return True
        self._drop(name)
        return False

    def _link(self, name: str, archive: int) -> None:
        self._drop(name)
        try:
            os.link(name, self.folder / name, src_dir_fd=archive, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._clone(descriptor_path(archive, name), self.folder / name)

    def _try_clone(self, name: str, source: WalSource) -> bool:
        """The file must still exist after the copy; otherwise it may have been recycled or truncated meanwhile."""
        if source.pg_wal is None or not _exists(source.pg_wal, name):
            return False
        self._drop(name)
        try:
            with open_tenant_folder(source.pg_wal) as pg_wal:
                self._clone(descriptor_path(pg_wal, name), self.folder / name)
        except (FileNotFoundError, TenantFileError):
            return False
        if _exists(source.pg_wal, name) and self._is_complete(name):
            return True
        self._drop(name)
        return False

    def _is_complete(self, name: str) -> bool:
        status = (self.folder / name).lstat()
        if not stat.S_ISREG(status.st_mode):
            return False
        if wal.is_history_file(name):
            return 0 < status.st_size <= _MAX_HISTORY_FILE_BYTES
        return status.st_size == wal.SEGMENT_BYTES

    def _drop(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def _exists(pg_wal: Path, name: str) -> bool:
    return wal_segments.has_file(pg_wal, name) if wal.is_history_file(name) else wal_segments.has_segment(pg_wal, name)


def _is_after(name: str, timeline: int, number: int) -> bool:
    return wal.is_segment(name) and wal.timeline_of(name) == timeline and wal.segment_number(name) > number


def _list_folder(path: Path) -> list[str]:
    try:
        with open_tenant_folder(path) as folder:
            return list_names(folder)
    except TooManyEntries:
        raise
    except (FileNotFoundError, TenantFileError):
        return []


def _missing_segment(wal_range: WalRange, number: int) -> EngineError:
    name = wal.segment_name_from_number(wal_range.timeline, number)
    return EngineError(f"The branch's history has a gap: its WAL file {name} is missing.", transient=False)

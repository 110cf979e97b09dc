"""The WAL that a server recovers with, gathered in a folder of its own: exactly what it needs, and nothing goes away.

Archived segments are linked, so that pruning harms nothing and nothing is copied. What is not archived yet is cloned
from where a server writes it, which may go on meanwhile: a segment leaves there only after it is in the archive. All
folders but this one are a tenant's: they are held open, and no link in them is followed.
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
from bough.engine.local.tenant_files import TenantFileError, TooManyEntries, list_names, open_tenant_folder
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.port import EngineError
from bough.postgres import recovery, wal

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
_LARGEST_HISTORY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class WalSource:
    """Where the WAL of one volume is."""

    archive: Path
    pg_wal: Path | None  # its `pg_wal`; None: the volume is gone, or closed

    def has_segment_after(self, timeline: int, number: int) -> bool:
        """Whether there is a later segment of the timeline."""
        if any(_is_after(name, timeline, number) for name in _listed(self.archive)):
            return True
        live = self.pg_wal
        return live is not None and any(
            _is_after(name, timeline, number) and wal_segments.has_segment(live, name) for name in _listed(live)
        )


class Spool:
    """Blocking, for a thread."""

    def __init__(self, folder: Path, owner: Identity, clone: Callable[[Path, Path], None]) -> None:
        self.folder = folder
        self._owner = owner
        self._clone = clone

    def create(self) -> None:
        """Empty. The owner may read what is in it."""
        self.remove()
        self.folder.mkdir(mode=0o700, parents=True)
        if not self._owner.is_current_user:
            os.chown(self.folder, -1, self._owner.gid)
            self.folder.chmod(0o750)

    def remove(self) -> None:
        remove_tree(self.folder)

    def fill(self, wal_range: WalRange, source: WalSource) -> None:
        """All of a stretch that has an end."""
        last = wal_range.first - 1 if wal_range.last is None else wal_range.last
        for number in range(wal_range.first, last + 1):
            if not self._take(wal_range, number, source):
                raise _missing_segment(wal_range, number)

    def fill_to_end(self, wal_range: WalRange, source: WalSource, end: int | None) -> None:
        """The last stretch. Where it has an end, one more: its first record says that the end is reached.

        `end` is the number of the last segment that is known to be there.
        """
        number = wal_range.first
        while (wal_range.last is None or number <= wal_range.last) and self._take(wal_range, number, source):
            number += 1
        if wal_range.last is not None and number > wal_range.last:
            self._take(wal_range, number, source)
        elif (end is not None and number <= end) or source.has_segment_after(wal_range.timeline, number):
            raise _missing_segment(wal_range, number)

    def add_timeline_histories(
        self, timelines: Iterable[int], sources: Iterable[WalSource], *, required: int | None
    ) -> None:
        """The files that say where timelines begin, where there are any."""
        known = list(sources)
        for timeline in timelines:
            name = recovery.history_file_name(timeline)
            is_there = any(self._is_linked(name, each) or self._is_cloned(name, each) for each in known)
            if timeline == required and not is_there:
                raise EngineError(f"The branch's history lacks the file {name}.", transient=False)

    def _take(self, stretch: WalRange, number: int, source: WalSource) -> bool:
        """In this order: what is archived while it is cloned may be gone from there."""
        name = wal.segment_name_from_number(stretch.timeline, number)
        return self._is_linked(name, source) or self._is_cloned(name, source) or self._is_linked(name, source)

    def _is_linked(self, name: str, source: WalSource) -> bool:
        try:
            with open_tenant_folder(source.archive) as here:
                self._link(name, here)
        except (FileNotFoundError, TenantFileError):
            return False
        if self._is_whole(name):
            return True
        self._drop(name)
        return False

    def _link(self, name: str, here: int) -> None:
        self._drop(name)
        try:
            os.link(name, self.folder / name, src_dir_fd=here, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._clone(Path(f"/proc/self/fd/{here}/{name}"), self.folder / name)

    def _is_cloned(self, name: str, source: WalSource) -> bool:
        """It must be there still when the copy is made: it could have been cut, or used anew, in the middle."""
        if source.pg_wal is None or not _is_there(source.pg_wal, name):
            return False
        self._drop(name)
        try:
            with open_tenant_folder(source.pg_wal) as here:
                self._clone(Path(f"/proc/self/fd/{here}/{name}"), self.folder / name)
        except (FileNotFoundError, TenantFileError):
            return False
        if _is_there(source.pg_wal, name) and self._is_whole(name):
            return True
        self._drop(name)
        return False

    def _is_whole(self, name: str) -> bool:
        seen = (self.folder / name).lstat()
        if not stat.S_ISREG(seen.st_mode):
            return False
        if wal.is_history_file(name):
            return 0 < seen.st_size <= _LARGEST_HISTORY
        return seen.st_size == wal.SEGMENT_BYTES

    def _drop(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def _is_there(live: Path, name: str) -> bool:
    return wal_segments.has_file(live, name) if wal.is_history_file(name) else wal_segments.has_segment(live, name)


def _is_after(name: str, timeline: int, number: int) -> bool:
    return wal.is_segment(name) and wal.timeline_of(name) == timeline and wal.segment_number(name) > number


def _listed(folder: Path) -> list[str]:
    try:
        with open_tenant_folder(folder) as here:
            return list_names(here)
    except TooManyEntries:
        raise
    except (FileNotFoundError, TenantFileError):
        return []


def _missing_segment(stretch: WalRange, number: int) -> EngineError:
    name = wal.segment_name_from_number(stretch.timeline, number)
    return EngineError(f"The branch's history has a gap: its WAL file {name} is missing.", transient=False)

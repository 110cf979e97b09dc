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

from bough.engine.local.computes import segments
from bough.engine.local.history.planning import Stretch
from bough.engine.local.isolation.sandbox import Identity
from bough.engine.local.tenant_files import TenantFileError, TooManyNames, names, opened_tenant_folder
from bough.engine.local.tenant_trees import remove_tree
from bough.engine.port import EngineError
from bough.postgres import recovery, wal

_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
_LARGEST_HISTORY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """Where the WAL of one volume is."""

    archive: Path
    live: Path | None  # its `pg_wal`; None: the volume is gone, or closed

    def has_after(self, timeline: int, number: int) -> bool:
        """Whether there is a later segment of the timeline."""
        if any(_is_after(name, timeline, number) for name in _listed(self.archive)):
            return True
        live = self.live
        return live is not None and any(
            _is_after(name, timeline, number) and segments.has(live, name) for name in _listed(live)
        )


class Spool:
    """Blocking, for a thread."""

    def __init__(self, folder: Path, owner: Identity, clone: Callable[[Path, Path], None]) -> None:
        self.folder = folder
        self._owner = owner
        self._clone = clone

    def begin(self) -> None:
        """Empty. The owner may read what is in it."""
        self.remove()
        self.folder.mkdir(mode=0o700, parents=True)
        if not self._owner.is_ours:
            os.chown(self.folder, -1, self._owner.gid)
            self.folder.chmod(0o750)

    def remove(self) -> None:
        remove_tree(self.folder)

    def fill(self, stretch: Stretch, source: Source) -> None:
        """All of a stretch that has an end."""
        last = stretch.first - 1 if stretch.last is None else stretch.last
        for number in range(stretch.first, last + 1):
            if not self._take(stretch, number, source):
                raise _hole(stretch, number)

    def fill_to_the_end(self, stretch: Stretch, source: Source, end: int | None) -> None:
        """The last stretch. Where it has an end, one more: its first record says that the end is reached.

        `end` is the number of the last segment that is known to be there.
        """
        number = stretch.first
        while (stretch.last is None or number <= stretch.last) and self._take(stretch, number, source):
            number += 1
        if stretch.last is not None and number > stretch.last:
            self._take(stretch, number, source)
        elif (end is not None and number <= end) or source.has_after(stretch.timeline, number):
            raise _hole(stretch, number)

    def add_histories(self, timelines: Iterable[int], sources: Iterable[Source], *, needed: int | None) -> None:
        """The files that say where timelines begin, where there are any."""
        known = list(sources)
        for timeline in timelines:
            name = recovery.history_name(timeline)
            is_there = any(self._is_linked(name, each) or self._is_cloned(name, each) for each in known)
            if timeline == needed and not is_there:
                raise EngineError(f"The branch's history lacks the file {name}.", transient=False)

    def _take(self, stretch: Stretch, number: int, source: Source) -> bool:
        """In this order: what is archived while it is cloned may be gone from there."""
        name = wal.numbered(stretch.timeline, number)
        return self._is_linked(name, source) or self._is_cloned(name, source) or self._is_linked(name, source)

    def _is_linked(self, name: str, source: Source) -> bool:
        try:
            with opened_tenant_folder(source.archive) as here:
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

    def _is_cloned(self, name: str, source: Source) -> bool:
        """It must be there still when the copy is made: it could have been cut, or used anew, in the middle."""
        if source.live is None or not _is_there(source.live, name):
            return False
        self._drop(name)
        try:
            with opened_tenant_folder(source.live) as here:
                self._clone(Path(f"/proc/self/fd/{here}/{name}"), self.folder / name)
        except (FileNotFoundError, TenantFileError):
            return False
        if _is_there(source.live, name) and self._is_whole(name):
            return True
        self._drop(name)
        return False

    def _is_whole(self, name: str) -> bool:
        seen = (self.folder / name).lstat()
        if not stat.S_ISREG(seen.st_mode):
            return False
        if wal.is_history(name):
            return 0 < seen.st_size <= _LARGEST_HISTORY
        return seen.st_size == wal.SEGMENT_BYTES

    def _drop(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


def _is_there(live: Path, name: str) -> bool:
    return segments.is_there(live, name) if wal.is_history(name) else segments.has(live, name)


def _is_after(name: str, timeline: int, number: int) -> bool:
    return wal.is_segment(name) and wal.timeline_of(name) == timeline and wal.number_of(name) > number


def _listed(folder: Path) -> list[str]:
    try:
        with opened_tenant_folder(folder) as here:
            return names(here)
    except TooManyNames:
        raise
    except (FileNotFoundError, TenantFileError):
        return []


def _hole(stretch: Stretch, number: int) -> EngineError:
    name = wal.numbered(stretch.timeline, number)
    return EngineError(f"The branch's history has a gap: its WAL file {name} is missing.", transient=False)

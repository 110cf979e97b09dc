"""`global/pg_control`: how a server ended, and where the next one begins to read WAL. Pure.

The fields read here stand at the same places in every version from 14 to 18: the system identifier,
two version numbers, the state, a moment, the last checkpoint, the beginning of its copy, and the limits that
a standby must have.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from bough.domain import lsn
from bough.postgres import wal
from bough.postgres.replication import STANDBY_MINIMUMS

PATH = "global/pg_control"
BYTES = 8192  # of the whole file, in every version
_LAYOUT = struct.Struct("<QIIIxxxxqQQI")
_BACKUP = struct.Struct("<152xQ")  # where a backup began whose end was not read yet; 0: none
_LIMITS = struct.Struct("<180x5I")  # in the order of `LIMITS`
# DB_SHUTDOWNED, and DB_SHUTDOWNED_IN_RECOVERY of one that stood still: the checkpoint is the last record.
_SHUT_DOWN = (1, 2)
_LAST_MOMENT = 2**36  # seconds since 1970: the year 4147
_RECOVERING = 5  # DB_IN_ARCHIVE_RECOVERY: from a backup, as opposed to a crash


@dataclass(frozen=True, slots=True)
class ControlFile:
    state: int
    written_at: int  # when it was written, in whole seconds since 1970
    checkpoint: str  # the position of the last one; the last record of a server that was shut down
    first_segment: str  # where recovery begins
    timeline: int
    is_in_backup: bool  # it recovers from a backup, and has not read to the end of that
    limits: Mapping[str, int]  # that the server had, and a standby must not be below

    @classmethod
    def parse(cls, content: bytes) -> Self:
        _, _, _, state, written_at, checkpoint, redo, timeline = _LAYOUT.unpack_from(content)
        if not 0 <= written_at < _LAST_MOMENT:
            raise ValueError("a moment that no server writes")
        limits = dict(zip(STANDBY_MINIMUMS, _LIMITS.unpack_from(content), strict=True))
        (backup,) = _BACKUP.unpack_from(content)
        first_segment = wal.segment_name(timeline, redo)
        return cls(state, written_at, lsn.to_text(checkpoint), first_segment, timeline, backup != 0, limits)

    @property
    def is_shut_down(self) -> bool:
        return self.state in _SHUT_DOWN and not self.is_in_backup

    @property
    def end_lsn(self) -> str:
        """Of the WAL of a server that was shut down."""
        return lsn.to_text(wal.checkpoint_end(lsn.to_int(self.checkpoint)))

    @property
    def is_recovering_from_backup(self) -> bool:
        """Whether a server began to, and has not come to the end yet; it may have been killed or stopped meanwhile."""
        return self.state == _RECOVERING or self.is_in_backup

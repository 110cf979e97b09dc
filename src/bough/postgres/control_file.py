"""Parses `global/pg_control`: how a server ended, and where the next one starts to read WAL.

The offsets of the fields are the same in versions 14 to 18: the system identifier, two version numbers, the state, a
timestamp, the last checkpoint, the start of its copy, and the settings that a standby must match.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from bough.domain import lsn
from bough.postgres import wal
from bough.postgres.replication import STANDBY_MINIMUMS

PATH = "global/pg_control"
BYTES = 8192  # size of the file in every version
_LAYOUT = struct.Struct("<QIIIxxxxqQQI")
# The minimum recovery point, and the start of a backup whose end has not been replayed yet; 0: none.
_RECOVERY = struct.Struct("<136xQ8xQ")
_LIMITS = struct.Struct("<180x5I")  # in the order of `STANDBY_MINIMUMS`
# DB_SHUTDOWNED and, for a standby, DB_SHUTDOWNED_IN_RECOVERY: the checkpoint is the last record.
_SHUT_DOWN = (1, 2)
_MAX_TIMESTAMP = 2**36  # seconds since 1970: the year 4147
_RECOVERING = 5  # DB_IN_ARCHIVE_RECOVERY: from a backup, unlike crash recovery


@dataclass(frozen=True, slots=True)
class ControlFile:
    state: int
    written_at: int  # time of the last write, in seconds since 1970
    checkpoint: str  # position of the last checkpoint, the last record of a server that was shut down
    first_segment: str  # where recovery starts
    timeline: int
    min_recovery_point: int  # a standby has replayed the WAL before this position
    is_in_backup: bool  # it is recovering from a backup and has not reached the end of the backup
    limits: Mapping[str, int]  # of the server; a standby must not have lower ones

    @classmethod
    def parse(cls, content: bytes) -> Self:
        _, _, _, state, written_at, checkpoint, redo, timeline = _LAYOUT.unpack_from(content)
        if not 0 <= written_at < _MAX_TIMESTAMP:
            raise ValueError("the timestamp is out of range")
        limits = dict(zip(STANDBY_MINIMUMS, _LIMITS.unpack_from(content), strict=True))
        min_recovery_point, backup = _RECOVERY.unpack_from(content)
        first_segment = wal.segment_name(timeline, redo)
        return cls(
            state, written_at, lsn.to_text(checkpoint), first_segment, timeline, min_recovery_point, backup != 0, limits
        )

    @property
    def is_shut_down(self) -> bool:
        return self.state in _SHUT_DOWN and not self.is_in_backup

    @property
    def end_lsn(self) -> str:
        """End of the WAL of a server that was shut down."""
        return lsn.to_text(wal.checkpoint_end(lsn.to_int(self.checkpoint)))

    @property
    def is_recovering_from_backup(self) -> bool:
        """Whether a server has started to recover from a backup and has not finished, even if it was stopped since."""
        return self.state == _RECOVERING or self.is_in_backup

"""`global/pg_control`: how a server ended, and where the next one begins to read WAL. Pure.

The fields read here stand at the same places in every version from 14 to 18: the system identifier,
two version numbers, the state, a moment, the last checkpoint, and the beginning of its copy.
"""

import struct
from dataclasses import dataclass
from typing import Self

from bough.postgres.wal import segment_name

PATH = "global/pg_control"
_LAYOUT = struct.Struct("<QIIIxxxxqQQI")
_SHUT_DOWN = 1  # DB_SHUTDOWNED: the checkpoint is the last record
_RECOVERING = 5  # DB_IN_ARCHIVE_RECOVERY: from a backup, as opposed to a crash


@dataclass(frozen=True, slots=True)
class ControlFile:
    state: int
    first_segment: str  # where recovery begins

    @classmethod
    def parse(cls, content: bytes) -> Self:
        _, _, _, state, _, _, redo, timeline = _LAYOUT.unpack_from(content)
        return cls(state, segment_name(timeline, redo))

    @property
    def shut_down(self) -> bool:
        return self.state == _SHUT_DOWN

    @property
    def recovers_from_backup(self) -> bool:
        """Whether a server began to, and has not come to the end yet."""
        return self.state == _RECOVERING

"""Caches the contents of a volume, read at the end of its recovery.

The caller that created the volume asks for its contents next; without the cache a server would start once more.
"""

from bough.engine.local.history.wal_end import WalEndReader
from bough.engine.port import BranchContents
from bough.ids import VolumeId

_MAX_ENTRIES = 100  # not every caller asks


class ContentsCache:
    def __init__(self, wal_end: WalEndReader) -> None:
        self._wal_end = wal_end
        self._entries: dict[VolumeId, tuple[str | None, BranchContents]] = {}

    async def put(self, volume: VolumeId, contents: BranchContents) -> None:
        """The volume's server has shut down."""
        self._entries[volume] = (await self._wal_end.read_wal_end(volume), contents)
        if len(self._entries) > _MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]

    async def pop(self, volume: VolumeId) -> BranchContents | None:
        """Return None if there is no entry or a server has run on the volume since."""
        end, contents = self._entries.pop(volume, (None, None))
        return contents if end is not None and end == await self._wal_end.read_wal_end(volume) else None

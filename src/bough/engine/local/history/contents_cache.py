"""What was in a volume when its recovery ended.

Whoever made it asks that next, and would have to start a server once more for it.
"""

from bough.engine.local.history.wal_end import WalEndReader
from bough.engine.port import BranchContents
from bough.ids import VolumeId

_MAX_ENTRIES = 100  # that are remembered; not everybody asks


class ContentsCache:
    def __init__(self, wal_end: WalEndReader) -> None:
        self._wal_end = wal_end
        self._seen: dict[VolumeId, tuple[str | None, BranchContents]] = {}

    async def put(self, volume: VolumeId, contents: BranchContents) -> None:
        """Of a volume whose server has ended."""
        self._seen[volume] = (await self._wal_end.read_wal_end(volume), contents)
        if len(self._seen) > _MAX_ENTRIES:
            del self._seen[next(iter(self._seen))]

    async def pop(self, volume: VolumeId) -> BranchContents | None:
        """None: nobody looked, or a server has run since."""
        end, contents = self._seen.pop(volume, (None, None))
        return contents if end is not None and end == await self._wal_end.read_wal_end(volume) else None

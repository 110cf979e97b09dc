"""What was in a volume when its recovery ended.

Whoever made it asks that next, and would have to start a server once more for it.
"""

from bough.engine.local.history.ends import Ends
from bough.engine.port import Contents
from bough.ids import VolumeId

_MOST = 100  # that are remembered; not everybody asks


class Glances:
    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._seen: dict[VolumeId, tuple[str | None, Contents]] = {}

    async def note(self, volume: VolumeId, contents: Contents) -> None:
        """Of a volume whose server has ended."""
        self._seen[volume] = (await self._ends.of(volume), contents)
        if len(self._seen) > _MOST:
            del self._seen[next(iter(self._seen))]

    async def take(self, volume: VolumeId) -> Contents | None:
        """None: nobody looked, or a server has run since."""
        end, contents = self._seen.pop(volume, (None, None))
        return contents if end is not None and end == await self._ends.of(volume) else None

"""When and from where a key was last used: noted in memory, written now and then.

A write for every request would cost more than the request.
"""

from datetime import datetime

from bough import clock
from bough.store.store import Store


class KeyUsage:
    def __init__(self) -> None:
        self._noted: dict[int, tuple[datetime, str]] = {}

    def record(self, key_id: int, address: str) -> None:
        self._noted[key_id] = (clock.now(), address)

    def last_use(self, key_id: int) -> tuple[datetime, str] | None:
        """A use that is not written yet."""
        return self._noted.get(key_id)

    async def flush(self, store: Store) -> int:
        noted, self._noted = self._noted, {}
        if noted:
            async with store.transaction() as rows:
                for key_id, (at, address) in noted.items():
                    await rows.api_keys.record_use(key_id, at, address)
        return len(noted)

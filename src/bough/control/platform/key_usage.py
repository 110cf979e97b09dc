"""When and from which address each API key was last used, buffered in memory and written periodically.

A write for every request would cost more than the request itself.
"""

from datetime import datetime

from bough import clock
from bough.store.store import Store


class KeyUsage:
    def __init__(self) -> None:
        self._pending: dict[int, tuple[datetime, str]] = {}

    def record(self, key_id: int, address: str) -> None:
        self._pending[key_id] = (clock.now(), address)

    def last_use(self, key_id: int) -> tuple[datetime, str] | None:
        """Return the last use that is not written yet."""
        return self._pending.get(key_id)

    async def flush(self, store: Store) -> int:
        pending, self._pending = self._pending, {}
        if pending:
            async with store.transaction() as rows:
                for key_id, (at, address) in pending.items():
                    await rows.api_keys.record_use(key_id, at, address)
        return len(pending)

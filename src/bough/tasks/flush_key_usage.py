"""Writes the buffered uses of API keys to the store."""

from bough.control.platform.key_usage import KeyUsage
from bough.store.store import Store


class FlushKeyUsage:
    interval = 10.0

    def __init__(self, store: Store, key_usage: KeyUsage) -> None:
        self._store = store
        self._key_usage = key_usage

    async def run(self) -> str:
        await self._key_usage.flush(self._store)
        return ""

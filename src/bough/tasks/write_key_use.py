"""What was noted about the use of keys goes into the store."""

from bough.control.key_use import KeyUse
from bough.store.store import Store


class WriteKeyUse:
    every = 10.0

    def __init__(self, store: Store, key_use: KeyUse) -> None:
        self._store = store
        self._key_use = key_use

    async def run(self) -> str:
        await self._key_use.write(self._store)
        return ""

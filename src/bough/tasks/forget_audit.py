"""Lines of the audit are forgotten when they are as old as the setting `audit_days` says."""

from datetime import datetime, timedelta

from bough import clock
from bough.config import Settings
from bough.store.store import Store


class DeleteOldAudit:
    interval = 3600.0

    def __init__(self, settings: Settings, store: Store) -> None:
        self._days = settings.audit_days
        self._store = store

    async def run(self) -> str:
        oldest = self._oldest()
        if oldest is None:
            return ""
        async with self._store.transaction() as rows:
            count = await rows.audit.delete_before(oldest)
        return f"forgot {count} old lines of the audit" if count else ""

    def _oldest(self) -> datetime | None:
        """None: so many days ago there was no calendar."""
        try:
            return clock.now() - timedelta(days=self._days)
        except OverflowError:
            return None

"""Delete what has expired: idempotency keys, audit records, endpoint logs, sessions, links, gateway workers."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta

from bough import clock, log_rotation
from bough.config import Settings
from bough.control.idempotency import RETENTION_HOURS
from bough.engine.port import EngineInspection
from bough.ids import EndpointId
from bough.store.store import Store

LOG_RETENTION = timedelta(days=1)  # users may look for the cause of a failure after they deleted the project
LOG_BATCH_SIZE = 500
WORKER_RETENTION = timedelta(days=1)


class DeleteIdempotencyKeys:
    interval = 600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        async with self._store.transaction() as rows:
            count = await rows.idempotency.delete_before(clock.now() - timedelta(hours=RETENTION_HOURS))
        return f"deleted {count} idempotency keys" if count else ""


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
        return f"deleted {count} old audit records" if count else ""

    def _oldest(self) -> datetime | None:
        """Return the time before which records are deleted; None if it is before the calendar begins."""
        try:
            return clock.now() - timedelta(days=self._days)
        except OverflowError:
            return None


class DeleteEndpointLogs:
    interval = 3600.0

    def __init__(self, settings: Settings, store: Store, engine: EngineInspection) -> None:
        self._folder = settings.compute_logs
        self._audit = settings.compute_audit
        self._store = store
        self._engine = engine

    async def run(self) -> str:
        inactive = await asyncio.to_thread(lambda: list(self._find_inactive()))
        deleted = await self._filter_deleted(inactive)
        await asyncio.to_thread(self._remove, deleted)
        return f"removed the logs of {len(deleted)} deleted endpoints" if deleted else ""

    def _find_inactive(self) -> Iterator[EndpointId]:
        """Yield endpoints without a new log line for a day; most of them are only suspended."""
        before = (clock.now() - LOG_RETENTION).timestamp()
        for path in self._folder.glob("*.log"):
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < before:
                    yield EndpointId(path.stem)

    async def _filter_deleted(self, endpoints: list[EndpointId]) -> set[EndpointId]:
        observed = await self._engine.observe()
        known: set[EndpointId] = set()
        async with self._store.read() as rows:
            for start in range(0, len(endpoints), LOG_BATCH_SIZE):
                known |= await rows.endpoints.filter_existing(endpoints[start : start + LOG_BATCH_SIZE])
        return set(endpoints) - known - observed.running_endpoints - observed.spare_endpoints

    def _remove(self, endpoints: set[EndpointId]) -> None:
        for endpoint in endpoints:
            log_rotation.remove_log(self._folder / f"{endpoint}.log")
            log_rotation.remove_log(self._folder / f"{endpoint}.audit")
            shutil.rmtree(self._audit / endpoint, ignore_errors=True)


class DeleteExpiredTokens:
    """Deletes expired sessions, one-time links, invitations and transfer requests."""

    interval = 600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        now = clock.now()
        async with self._store.transaction() as rows:
            counts = {
                "sessions": await rows.sessions.delete_expired(now),
                "links": await rows.links.delete_expired(now),
                "invitations": await rows.invitations.delete_expired(now),
                "transfer requests": await rows.transfer_requests.delete_expired(now),
            }
        expired = [f"{count} {things}" for things, count in counts.items() if count]
        return f"deleted {', '.join(expired)} that had expired" if expired else ""


class DeleteGatewayWorkers:
    interval = 3600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        async with self._store.transaction() as rows:
            count = await rows.gateway_workers.delete_before(clock.now() - WORKER_RETENTION)
        return f"deleted {count} gateway workers" if count else ""

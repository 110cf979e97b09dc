"""Delete what has expired: idempotency keys, audit records, endpoint logs, sessions, links, gateway workers."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta

from bough import clock, log_rotation
from bough.config import Settings
from bough.control.idempotency import RETENTION_HOURS
from bough.engine.port import EngineInspection
from bough.ids import EndpointId
from bough.store.store import Store

LOG_RETENTION = timedelta(days=1)  # whoever asks why a project went wrong may have deleted it already
LOG_BATCH_SIZE = 500
WORKER_RETENTION = timedelta(days=1)


class DeleteIdempotencyKeys:
    interval = 600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        async with self._store.transaction() as rows:
            count = await rows.idempotency.delete_before(clock.now() - timedelta(hours=RETENTION_HOURS))
        return f"forgot {count} remembered answers" if count else ""


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


class DeleteEndpointLogs:
    interval = 3600.0

    def __init__(self, settings: Settings, store: Store, engine: EngineInspection) -> None:
        self._folder = settings.compute_logs
        self._store = store
        self._engine = engine

    async def run(self) -> str:
        silent = await asyncio.to_thread(lambda: list(self._silent()))
        gone = await self._gone(silent)
        await asyncio.to_thread(self._remove, gone)
        return f"removed the logs of {len(gone)} endpoints that are gone" if gone else ""

    def _silent(self) -> Iterator[EndpointId]:
        """Endpoints whose log had no new line for a day; most of them only sleep."""
        before = (clock.now() - LOG_RETENTION).timestamp()
        for path in self._folder.glob("*.log"):
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < before:
                    yield EndpointId(path.stem)

    async def _gone(self, endpoints: list[EndpointId]) -> set[EndpointId]:
        seen = await self._engine.observe()
        known: set[EndpointId] = set()
        async with self._store.read() as rows:
            for first in range(0, len(endpoints), LOG_BATCH_SIZE):
                known |= await rows.endpoints.filter_existing(endpoints[first : first + LOG_BATCH_SIZE])
        return set(endpoints) - known - seen.running_endpoints - seen.spare_endpoints

    def _remove(self, gone: set[EndpointId]) -> None:
        for endpoint in gone:
            log_rotation.remove_log(self._folder / f"{endpoint}.log")


class DeleteExpiredLinks:
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
        gone = [f"{count} {things}" for things, count in counts.items() if count]
        return f"forgot {', '.join(gone)} that expired" if gone else ""


class DeleteGatewayWorkers:
    interval = 3600.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self) -> str:
        async with self._store.transaction() as rows:
            count = await rows.gateway_workers.delete_before(clock.now() - WORKER_RETENTION)
        return f"forgot {count} gateway workers" if count else ""

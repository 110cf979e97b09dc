"""Named queries on stored responses to POST requests with an Idempotency-Key."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from bough.store.queries import Queries
from bough.store.row_mapping import from_row
from bough.store.tables import idempotency


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    key: str
    fingerprint: str
    status: int | None  # None: the request was carried out, but its response is not stored yet
    sealed_body: str | None
    created_at: datetime


class Idempotency(Queries):
    async def get(self, key: str) -> IdempotencyRecord | None:
        row = await self._one(sa.select(idempotency).where(idempotency.c.key == key))
        return from_row(IdempotencyRecord, row) if row else None

    async def reserve(self, key: str, fingerprint: str, now: datetime) -> None:
        """Reserve the key in the transaction of the request. Raises Duplicate if another request has used the key."""
        await self._insert(idempotency, {"key": key, "fingerprint": fingerprint, "created_at": now})

    async def save_response(self, key: str, status: int, sealed_body: str) -> None:
        await self._run(
            sa.update(idempotency).where(idempotency.c.key == key).values(status=status, sealed_body=sealed_body)
        )

    async def delete_before(self, moment: datetime) -> int:
        return await self._run(sa.delete(idempotency).where(idempotency.c.created_at < moment))

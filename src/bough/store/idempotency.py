"""Named queries on remembered answers to POSTs that carried an Idempotency-Key."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from bough.store.queries import Queries
from bough.store.rebuild import rebuild
from bough.store.tables import idempotency


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    key: str
    fingerprint: str
    status: int | None  # None: carried out, the answer not yet kept
    sealed_body: str | None
    created_at: datetime


class Idempotency(Queries):
    async def get(self, key: str) -> Remembered | None:
        row = await self._one(sa.select(idempotency).where(idempotency.c.key == key))
        return rebuild(Remembered, row) if row else None

    async def reserve(self, key: str, fingerprint: str, now: datetime) -> None:
        """In the transaction that does the work; raises Duplicate when another did it first."""
        await self._insert(idempotency, {"key": key, "fingerprint": fingerprint, "created_at": now})

    async def keep_answer(self, key: str, status: int, sealed_body: str) -> None:
        await self._run(
            sa.update(idempotency).where(idempotency.c.key == key).values(status=status, sealed_body=sealed_body)
        )

    async def forget_before(self, moment: datetime) -> int:
        return await self._run(sa.delete(idempotency).where(idempotency.c.created_at < moment))

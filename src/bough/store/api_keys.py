"""Named queries on API keys."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.api_key import ApiKey, KeyKind
from bough.ids import OrganizationId, UserId
from bough.store.queries import Queries
from bough.store.rebuild import rebuild
from bough.store.tables import api_keys, members

_CALLER = (
    sa.select(api_keys, members.c.org_id.label("member_of"))
    .outerjoin(members, members.c.user_id == api_keys.c.user_id)
    .where(api_keys.c.prefix == sa.bindparam("prefix"), api_keys.c.revoked_at.is_(None))
)


class ApiKeys(Queries):
    async def add(self, columns: Mapping[str, Any]) -> ApiKey:
        key_id = await self._insert(api_keys, dict(columns))
        row = await self._one(sa.select(api_keys).where(api_keys.c.id == key_id))
        assert row is not None
        return rebuild(ApiKey, row)

    async def caller(self, prefix: str) -> tuple[ApiKey, frozenset[OrganizationId]] | None:
        """A living key with its user's organizations, in one question: every request asks it."""
        rows = await self._all(_CALLER, prefix=prefix)
        if not rows:
            return None
        return rebuild(ApiKey, rows[0]), frozenset(OrganizationId(row["member_of"]) for row in rows if row["member_of"])

    async def by_prefix(self, prefix: str) -> ApiKey | None:
        """Also a revoked one."""
        row = await self._one(sa.select(api_keys).where(api_keys.c.prefix == prefix))
        return rebuild(ApiKey, row) if row else None

    async def personal(self, user_id: UserId) -> list[ApiKey]:
        rows = await self._all(
            sa.select(api_keys)
            .where(api_keys.c.user_id == user_id, api_keys.c.kind == KeyKind.PERSONAL, api_keys.c.revoked_at.is_(None))
            .order_by(api_keys.c.id)
        )
        return [rebuild(ApiKey, row) for row in rows]

    async def personal_one(self, user_id: UserId, key_id: int) -> ApiKey | None:
        row = await self._one(
            sa.select(api_keys).where(
                api_keys.c.id == key_id,
                api_keys.c.user_id == user_id,
                api_keys.c.kind == KeyKind.PERSONAL,
                api_keys.c.revoked_at.is_(None),
            )
        )
        return rebuild(ApiKey, row) if row else None

    async def set_digest(self, key_id: int, digest: str) -> None:
        await self._run(sa.update(api_keys).where(api_keys.c.id == key_id).values(digest=digest))

    async def revoke(self, key_id: int, now: datetime) -> None:
        await self._run(sa.update(api_keys).where(api_keys.c.id == key_id).values(revoked_at=now))

    async def set_used(self, key_id: int, at: datetime, address: str) -> None:
        await self._run(
            sa.update(api_keys).where(api_keys.c.id == key_id).values(last_used_at=at, last_used_from=address)
        )

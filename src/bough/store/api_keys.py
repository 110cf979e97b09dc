"""Named queries on API keys."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.api_key import ApiKey, KeyKind
from bough.domain.organization import Organization
from bough.ids import UserId
from bough.store.queries import Queries
from bough.store.rebuild import rebuild
from bough.store.tables import api_keys, members, organizations

_REACHED = tuple(column.label(f"org_{column.name}") for column in organizations.c)
_membership = sa.and_(members.c.user_id == api_keys.c.user_id, api_keys.c.kind == KeyKind.PERSONAL)
_CALLER = (
    sa.select(*(column.label(f"key_{column.name}") for column in api_keys.c), *_REACHED)
    .outerjoin(members, _membership)
    .outerjoin(organizations, organizations.c.id == sa.func.coalesce(api_keys.c.org_id, members.c.org_id))
    .where(api_keys.c.prefix == sa.bindparam("prefix"), api_keys.c.revoked_at.is_(None))
    .order_by(organizations.c.created_at, organizations.c.id)
)


class ApiKeys(Queries):
    async def add(self, columns: Mapping[str, Any]) -> ApiKey:
        key_id = await self._insert(api_keys, dict(columns))
        row = await self._one(sa.select(api_keys).where(api_keys.c.id == key_id))
        assert row is not None
        return rebuild(ApiKey, row)

    async def caller(self, prefix: str) -> tuple[ApiKey, list[Organization]] | None:
        """A living key with the organizations it reaches, in one question: every request asks it."""
        rows = await self._all(_CALLER, prefix=prefix)
        if not rows:
            return None
        reached = [rebuild(Organization, row, "org_") for row in rows if row["org_id"] is not None]
        return rebuild(ApiKey, rows[0], "key_"), reached

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

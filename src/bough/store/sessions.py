"""Named queries on browser sessions and one-time links. Both are found by the digest of a secret."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.one_time_link import LinkPurpose, OneTimeLink
from bough.domain.session import Session
from bough.domain.user import User
from bough.ids import UserId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import links, sessions, users


def _not_expired(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.expires_at > sa.bindparam("now", type_=table.c.expires_at.type)


_WITH_USER = (
    sa.select(
        *(column.label(f"session_{column.name}") for column in sessions.c),
        *(column.label(f"user_{column.name}") for column in users.c),
    )
    .join(users, users.c.id == sessions.c.user_id)
    .where(equals_param(sessions.c.digest), _not_expired(sessions))
)
_BY_USER = (
    sa.select(sessions)
    .where(equals_param(sessions.c.user_id), _not_expired(sessions))
    .order_by(sessions.c.created_at.desc())
)
_LINK = sa.select(links).where(equals_param(links.c.digest), equals_param(links.c.purpose), _not_expired(links))


class Sessions(Queries):
    async def add(self, session: Session) -> None:
        await self._insert(sessions, to_columns(session))

    async def get(self, digest: str, now: datetime) -> tuple[Session, User] | None:
        row = await self._one(_WITH_USER, digest=digest, now=now)
        return (from_row(Session, row, "session_"), from_row(User, row, "user_")) if row else None

    async def list_by_user(self, user_id: UserId, now: datetime) -> list[Session]:
        return [from_row(Session, row) for row in await self._all(_BY_USER, user_id=user_id, now=now)]

    async def delete(self, digest: str) -> None:
        await self._run(sa.delete(sessions).where(equals_param(sessions.c.digest)), digest=digest)

    async def delete_by_user(self, user_id: UserId, *, except_digest: str = "") -> int:
        own_sessions = sa.and_(sessions.c.user_id == user_id, sessions.c.digest != except_digest)
        return await self._run(sa.delete(sessions).where(own_sessions))

    async def delete_expired(self, now: datetime) -> int:
        return await self._run(sa.delete(sessions).where(sessions.c.expires_at <= now))


class Links(Queries):
    async def add(self, link: OneTimeLink) -> None:
        await self._insert(links, to_columns(link))

    async def get(self, digest: str, purpose: LinkPurpose, now: datetime) -> OneTimeLink | None:
        row = await self._one(_LINK, digest=digest, purpose=purpose, now=now)
        return from_row(OneTimeLink, row) if row else None

    async def consume(self, digest: str) -> int:
        """Return the number of deleted rows: if two requests use a link at once, only one gets 1."""
        return await self._run(sa.delete(links).where(equals_param(links.c.digest)), digest=digest)

    async def delete_by_user(self, user_id: UserId) -> None:
        """Delete all links of a user, whose password was changed."""
        await self._run(sa.delete(links).where(links.c.user_id == user_id))

    async def delete_by_purpose(self, user_id: UserId, purpose: LinkPurpose) -> None:
        await self._run(sa.delete(links).where(links.c.user_id == user_id, links.c.purpose == purpose))

    async def delete_expired(self, now: datetime) -> int:
        return await self._run(sa.delete(links).where(links.c.expires_at <= now))

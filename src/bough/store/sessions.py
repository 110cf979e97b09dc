"""Named queries on sessions of browsers and on links that work once. Both are found by the digest of a secret."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.link import Link, Purpose
from bough.domain.session import Session
from bough.domain.user import User
from bough.ids import UserId
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import links, sessions, users


def _now(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.expires_at > sa.bindparam("now", type_=table.c.expires_at.type)


_SEEN = (
    sa.select(
        *(column.label(f"session_{column.name}") for column in sessions.c),
        *(column.label(f"user_{column.name}") for column in users.c),
    )
    .join(users, users.c.id == sessions.c.user_id)
    .where(same(sessions.c.digest), _now(sessions))
)
_OF = sa.select(sessions).where(same(sessions.c.user_id), _now(sessions)).order_by(sessions.c.created_at.desc())
_LINK = sa.select(links).where(same(links.c.digest), same(links.c.purpose), _now(links))


class Sessions(Queries):
    async def add(self, session: Session) -> None:
        await self._insert(sessions, columns_of(session))

    async def get(self, digest: str, now: datetime) -> tuple[Session, User] | None:
        row = await self._one(_SEEN, digest=digest, now=now)
        return (rebuild(Session, row, "session_"), rebuild(User, row, "user_")) if row else None

    async def of(self, user_id: UserId, now: datetime) -> list[Session]:
        return [rebuild(Session, row) for row in await self._all(_OF, user_id=user_id, now=now)]

    async def end(self, digest: str) -> None:
        await self._run(sa.delete(sessions).where(same(sessions.c.digest)), digest=digest)

    async def end_all(self, user_id: UserId, *, but: str = "") -> int:
        ours = sa.and_(sessions.c.user_id == user_id, sessions.c.digest != but)
        return await self._run(sa.delete(sessions).where(ours))

    async def forget_expired(self, now: datetime) -> int:
        return await self._run(sa.delete(sessions).where(sessions.c.expires_at <= now))


class Links(Queries):
    async def add(self, link: Link) -> None:
        await self._insert(links, columns_of(link))

    async def get(self, digest: str, purpose: Purpose, now: datetime) -> Link | None:
        row = await self._one(_LINK, digest=digest, purpose=purpose, now=now)
        return rebuild(Link, row) if row else None

    async def use(self, digest: str) -> int:
        """How many there were: of two who follow it at once, one gets 1."""
        return await self._run(sa.delete(links).where(same(links.c.digest)), digest=digest)

    async def void(self, user_id: UserId) -> None:
        """All links of a person: their password was changed."""
        await self._run(sa.delete(links).where(links.c.user_id == user_id))

    async def void_all(self, user_id: UserId, purpose: Purpose) -> None:
        await self._run(sa.delete(links).where(links.c.user_id == user_id, links.c.purpose == purpose))

    async def forget_expired(self, now: datetime) -> int:
        return await self._run(sa.delete(links).where(links.c.expires_at <= now))

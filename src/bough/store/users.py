"""Named queries on users."""

from collections.abc import Collection

import sqlalchemy as sa

from bough.domain.user import User
from bough.ids import UserId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import users

_ONE = sa.select(users).where(equals_param(users.c.id))
_LOCK = _ONE.with_for_update()
_LOCK_NO_KEY = sa.select(users.c.id).where(equals_param(users.c.id)).with_for_update(key_share=True)
_NAMED = sa.select(users).where(equals_param(users.c.email))


class Users(Queries):
    async def add(self, user: User) -> None:
        """Raise Duplicate if another user has the e-mail address."""
        await self._insert(users, to_columns(user))

    async def save(self, user: User) -> None:
        await self._save(users, to_columns(user))

    async def get(self, user_id: UserId) -> User | None:
        row = await self._one(_ONE, id=user_id)
        return from_row(User, row) if row else None

    async def get_for_update(self, user_id: UserId) -> User | None:
        """Lock the row until the transaction ends. SQLite has only one writer, so it needs no lock."""
        row = await self._one(_LOCK, id=user_id)
        return from_row(User, row) if row else None

    async def lock(self, user_id: UserId) -> None:
        """Serialize decisions about the limits of the user's plan. Other rows may still refer to the user."""
        await self._value(_LOCK_NO_KEY, id=user_id)

    async def get_by_email(self, email: str) -> User | None:
        row = await self._one(_NAMED, email=email)
        return from_row(User, row) if row else None

    async def get_many(self, user_ids: Collection[UserId]) -> dict[UserId, User]:
        rows = await self._all(sa.select(users).where(users.c.id.in_(user_ids)))
        return {UserId(row["id"]): from_row(User, row) for row in rows}

    async def list_all(self) -> list[User]:
        """Return all users in the order of their creation."""
        rows = await self._all(sa.select(users).order_by(users.c.created_at, users.c.id))
        return [from_row(User, row) for row in rows]

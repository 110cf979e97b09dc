"""Named queries on users."""

import sqlalchemy as sa

from bough.domain.user import User
from bough.ids import UserId
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import users

_ONE = sa.select(users).where(same(users.c.id))


class Users(Queries):
    async def add(self, user: User) -> None:
        await self._insert(users, columns_of(user))

    async def get(self, user_id: UserId) -> User | None:
        row = await self._one(_ONE, id=user_id)
        return rebuild(User, row) if row else None

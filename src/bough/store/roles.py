"""Named queries on roles."""

import sqlalchemy as sa

from bough.domain.role import Role
from bough.ids import BranchId
from bough.store.queries import Queries, same
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import roles

_OF_BRANCH = sa.select(roles).where(same(roles.c.branch_id)).order_by(roles.c.name)


class Roles(Queries):
    async def add(self, role: Role) -> None:
        await self._insert(roles, columns_of(role))

    async def get(self, branch_id: BranchId, name: str) -> Role | None:
        row = await self._one(sa.select(roles).where(roles.c.branch_id == branch_id, roles.c.name == name))
        return rebuild(Role, row) if row else None

    async def of_branch(self, branch_id: BranchId) -> list[Role]:
        rows = await self._all(_OF_BRANCH, branch_id=branch_id)
        return [rebuild(Role, row) for row in rows]

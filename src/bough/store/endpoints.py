"""Named queries on endpoints."""

import sqlalchemy as sa

from bough.domain.endpoint import Endpoint, EndpointState, EndpointType
from bough.ids import BranchId, EndpointId, ProjectId
from bough.store.queries import Queries
from bough.store.rebuild import columns_of, rebuild
from bough.store.tables import endpoints, projects


class Endpoints(Queries):
    async def add(self, endpoint: Endpoint) -> None:
        await self._insert(endpoints, columns_of(endpoint))

    async def save(self, endpoint: Endpoint) -> None:
        await self._run(sa.update(endpoints).where(endpoints.c.id == endpoint.id).values(columns_of(endpoint)))

    async def get(self, endpoint_id: EndpointId) -> Endpoint | None:
        row = await self._one(
            sa.select(endpoints).where(endpoints.c.id == endpoint_id, endpoints.c.deleted_at.is_(None))
        )
        return rebuild(Endpoint, row) if row else None

    async def of_project(self, project_id: ProjectId) -> list[Endpoint]:
        rows = await self._all(
            sa.select(endpoints)
            .where(endpoints.c.project_id == project_id, endpoints.c.deleted_at.is_(None))
            .order_by(endpoints.c.created_at, endpoints.c.id)
        )
        return [rebuild(Endpoint, row) for row in rows]

    async def of_branch(self, branch_id: BranchId) -> list[Endpoint]:
        rows = await self._all(
            sa.select(endpoints)
            .where(endpoints.c.branch_id == branch_id, endpoints.c.deleted_at.is_(None))
            .order_by(endpoints.c.created_at, endpoints.c.id)
        )
        return [rebuild(Endpoint, row) for row in rows]

    async def read_write(self, branch_id: BranchId) -> Endpoint | None:
        row = await self._one(
            sa.select(endpoints).where(
                endpoints.c.branch_id == branch_id,
                endpoints.c.type == EndpointType.READ_WRITE,
                endpoints.c.deleted_at.is_(None),
            )
        )
        return rebuild(Endpoint, row) if row else None

    async def active(self) -> list[Endpoint]:
        """Those that shall have a running compute, of projects that are not deleted."""
        rows = await self._all(
            sa.select(endpoints)
            .join(projects, projects.c.id == endpoints.c.project_id)
            .where(
                endpoints.c.state == EndpointState.ACTIVE,
                endpoints.c.deleted_at.is_(None),
                projects.c.deleted_at.is_(None),
            )
            .order_by(endpoints.c.id)
        )
        return [rebuild(Endpoint, row) for row in rows]

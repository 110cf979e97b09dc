"""Named queries on project transfer requests. A request is deleted when it is accepted or its project moves."""

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from bough.domain.project_transfer import TransferRequest
from bough.ids import ProjectId
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row, to_columns
from bough.store.tables import transfer_requests

_LIVE = transfer_requests.c.expires_at > sa.bindparam("now", type_=transfer_requests.c.expires_at.type)
_ONE = sa.select(transfer_requests).where(equals_param(transfer_requests.c.digest), _LIVE)


class TransferRequests(Queries):
    async def add(self, request: TransferRequest) -> None:
        await self._insert(transfer_requests, to_columns(request))

    async def get(self, digest: str, now: datetime) -> TransferRequest | None:
        row = await self._one(_ONE, digest=digest, now=now)
        return from_row(TransferRequest, row) if row else None

    async def delete_by_projects(self, project_ids: Collection[ProjectId]) -> None:
        await self._run(sa.delete(transfer_requests).where(transfer_requests.c.project_id.in_(project_ids)))

    async def delete_expired(self, now: datetime) -> int:
        return await self._run(sa.delete(transfer_requests).where(transfer_requests.c.expires_at <= now))

"""Named queries on the audit log. Entries are added, read by page and deleted by age, but never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.audit import ActorKind, AuditEntry
from bough.ids import OrganizationId, ProjectId, UserId
from bough.store.queries import Queries
from bough.store.row_mapping import from_row
from bough.store.tables import audit

_IN_PERSON = (ActorKind.PERSON, ActorKind.PERSONAL_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """Filters of audit entries; None matches everything."""

    org_id: OrganizationId | None = None
    project_id: ProjectId | None = None
    user_id: UserId | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    in_person: bool = False  # only actions of the users themselves, not of their API keys


class Audit(Queries):
    async def add(self, columns: Mapping[str, Any]) -> None:
        await self._insert(audit, columns)

    async def page(self, query: AuditQuery, limit: int, before: int | None) -> list[AuditEntry]:
        """Return the newest entries first, starting below the id `before`."""
        rows = sa.select(audit)
        for name in ("org_id", "project_id", "user_id", "action"):
            if (value := getattr(query, name)) is not None:
                rows = rows.where(audit.c[name] == value)
        if query.in_person:
            rows = rows.where(audit.c.actor_kind.in_(_IN_PERSON))
        if query.since is not None:
            rows = rows.where(audit.c.at >= query.since)
        if query.until is not None:
            rows = rows.where(audit.c.at < query.until)
        if before is not None:
            rows = rows.where(audit.c.id < before)
        rows = rows.order_by(audit.c.id.desc()).limit(limit)
        return [from_row(AuditEntry, row) for row in await self._all(rows)]

    async def delete_before(self, moment: datetime) -> int:
        return await self._run(sa.delete(audit).where(audit.c.at < moment))

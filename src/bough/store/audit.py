"""Named queries on the audit: lines are added, read by page and forgotten with age, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from bough.domain.audit import ActorKind, AuditLine
from bough.ids import OrganizationId, ProjectId, UserId
from bough.store.queries import Queries
from bough.store.rebuild import rebuild
from bough.store.tables import audit

_IN_PERSON = (ActorKind.PERSON, ActorKind.PERSONAL_KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuestion:
    """Which lines; None where it does not matter."""

    org_id: OrganizationId | None = None
    project_id: ProjectId | None = None
    user_id: UserId | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    in_person: bool = False  # only what people did themselves, not what keys did that they made


class Audit(Queries):
    async def add(self, columns: Mapping[str, Any]) -> None:
        await self._insert(audit, columns)

    async def page(self, asked: AuditQuestion, limit: int, before: int | None) -> list[AuditLine]:
        """The newest first, those before the line `before`."""
        rows = sa.select(audit)
        for name in ("org_id", "project_id", "user_id", "action"):
            if (value := getattr(asked, name)) is not None:
                rows = rows.where(audit.c[name] == value)
        if asked.in_person:
            rows = rows.where(audit.c.actor_kind.in_(_IN_PERSON))
        if asked.since is not None:
            rows = rows.where(audit.c.at >= asked.since)
        if asked.until is not None:
            rows = rows.where(audit.c.at < asked.until)
        if before is not None:
            rows = rows.where(audit.c.id < before)
        rows = rows.order_by(audit.c.id.desc()).limit(limit)
        return [rebuild(AuditLine, row) for row in await self._all(rows)]

    async def forget_before(self, moment: datetime) -> int:
        return await self._run(sa.delete(audit).where(audit.c.at < moment))

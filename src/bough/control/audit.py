"""The audit record of one request. It is written in the same transaction as the change it describes."""

from typing import Any

from bough import clock
from bough.domain.audit import PLATFORM, Actor
from bough.ids import OrganizationId, ProjectId
from bough.store.store import Rows


class AuditRecord:
    def __init__(self, actor: Actor, action: str, *, address: str, request_id: str, resource: str = "") -> None:
        self.actor = actor
        self.action = action
        self.address = address
        self.request_id = request_id
        self.org_id: OrganizationId | None = None
        self.project_id: ProjectId | None = None
        self.resource = resource
        self.details: dict[str, Any] = {}
        self.is_written = False  # one record per request, even if the request uses several transactions

    def add_details(
        self,
        *,
        org_id: OrganizationId | None = None,
        project_id: ProjectId | None = None,
        resource: str | None = None,
        **details: Any,
    ) -> None:
        """Add what is known so far. Details must be JSON-serializable and must not contain secrets."""
        self.org_id = org_id or self.org_id
        self.project_id = project_id or self.project_id
        self.resource = resource or self.resource
        self.details |= details

    def discard(self) -> None:
        """Write no record, because the request changed nothing."""
        self.is_written = True

    async def write(self, rows: Rows, **overrides: Any) -> None:
        """Write one record; `overrides` replaces columns for one of several objects of the request."""
        columns = {
            "at": clock.now(),
            "actor_kind": self.actor.kind,
            "actor_name": self.actor.name,
            "user_id": self.actor.user_id,
            "key_id": self.actor.key_id,
            "address": self.address,
            "request_id": self.request_id,
            "action": self.action,
            "org_id": self.org_id,
            "project_id": self.project_id,
            "thing": self.resource,
            "details": self.details,
        }
        await rows.audit.add({**columns, **overrides})


async def write_platform_record(
    rows: Rows, action: str, *, request_id: str, project_id: ProjectId, resource: str = "", **details: Any
) -> None:
    """Record what a task of the platform did in a project."""
    project = await rows.projects.get(project_id)
    record = AuditRecord(PLATFORM, action, address="", request_id=request_id, resource=resource)
    record.add_details(org_id=project.org_id if project else None, project_id=project_id, **details)
    await record.write(rows)

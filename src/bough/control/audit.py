"""What the audit says of one request. It is written with the change, in one transaction: none without the other."""

from typing import Any

from bough import clock
from bough.domain.audit import PLATFORM, Actor
from bough.ids import OrganizationId, ProjectId
from bough.store.store import Rows


class AuditRecord:
    def __init__(self, actor: Actor, action: str, *, address: str, request_id: str, thing: str = "") -> None:
        self.actor = actor
        self.action = action
        self.address = address
        self.request_id = request_id
        self.org_id: OrganizationId | None = None
        self.project_id: ProjectId | None = None
        self.thing = thing
        self.details: dict[str, Any] = {}
        self.is_written = False  # once a request, however many transactions it takes

    def add_details(
        self,
        *,
        org_id: OrganizationId | None = None,
        project_id: ProjectId | None = None,
        thing: str | None = None,
        **details: Any,
    ) -> None:
        """What is known by now; never a secret, and nothing that JSON cannot hold."""
        self.org_id = org_id or self.org_id
        self.project_id = project_id or self.project_id
        self.thing = thing or self.thing
        self.details |= details

    def discard(self) -> None:
        """There was nothing to change, so there is nothing to tell."""
        self.is_written = True

    async def write(self, rows: Rows, **overrides: Any) -> None:
        """One line; `other` for one of several that a request is about."""
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
            "thing": self.thing,
            "details": self.details,
        }
        await rows.audit.add({**columns, **overrides})


async def write_platform_record(
    rows: Rows, action: str, *, request_id: str, project_id: ProjectId, thing: str = "", **details: Any
) -> None:
    """Record what a task of the platform did in a project."""
    project = await rows.projects.get(project_id)
    record = AuditRecord(PLATFORM, action, address="", request_id=request_id, thing=thing)
    record.add_details(org_id=project.org_id if project else None, project_id=project_id, **details)
    await record.write(rows)

"""An entry of the audit log: who did what, when and from where."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from bough.ids import OrganizationId, ProjectId, UserId


class ActorKind(StrEnum):
    PERSON = "person"  # signed in with a browser
    PERSONAL_KEY = "personal_key"
    ORGANIZATION_KEY = "organization_key"
    PROJECT_KEY = "project_key"
    PLATFORM = "platform"  # a rule or a scheduled task
    ANONYMOUS = "nobody"  # a client without credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    kind: ActorKind
    name: str  # the e-mail address of a person, or the name of an organization or project key
    user_id: UserId | None = None  # the person, or the creator of the key
    key_id: int | None = None


PLATFORM = Actor(kind=ActorKind.PLATFORM, name="platform")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    id: int
    at: datetime
    actor_kind: ActorKind
    actor_name: str
    user_id: UserId | None
    key_id: int | None
    address: str
    request_id: str
    action: str
    org_id: OrganizationId | None
    project_id: ProjectId | None
    resource: str = field(metadata={"column": "thing"})  # inside the organization or project
    details: Mapping[str, Any]

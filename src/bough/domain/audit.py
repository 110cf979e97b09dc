"""A line of the audit: who did what, when and from where."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from bough.ids import OrganizationId, ProjectId, UserId


class ActorKind(StrEnum):
    PERSON = "person"  # signed in with a browser
    PERSONAL_KEY = "personal_key"
    ORGANIZATION_KEY = "organization_key"
    PROJECT_KEY = "project_key"
    PLATFORM = "platform"  # nobody: a rule, or the clock
    ANONYMOUS = "nobody"  # somebody who has not shown who they are


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    kind: ActorKind
    name: str  # the e-mail address of a person, the name of a key that is nobody's own
    user_id: UserId | None = None  # the person, or who made the key
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
    thing: str  # what it was done to, inside the organization or project
    details: Mapping[str, Any]

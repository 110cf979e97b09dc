"""An API key as it is stored: a prefix and an HMAC, never the token."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from bough.ids import OrganizationId, ProjectId, UserId


class KeyKind(StrEnum):
    PERSONAL = "personal"  # all projects that its user has access to
    ORGANIZATION = "organization"  # all projects of one organization
    PROJECT = "project"  # one project


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    id: int
    kind: KeyKind
    name: str
    prefix: str
    digest: str
    user_id: UserId  # the creator
    org_id: OrganizationId | None
    project_id: ProjectId | None
    created_at: datetime
    last_used_at: datetime | None
    last_used_from: str
    revoked_at: datetime | None

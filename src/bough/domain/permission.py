"""A project shared with an e-mail address. It takes effect when a user with that address has an account."""

from dataclasses import dataclass
from datetime import datetime

from bough.ids import PermissionId, ProjectId, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    id: PermissionId
    project_id: ProjectId
    email: str
    granted_by: UserId
    granted_at: datetime
    revoked_at: datetime | None = None

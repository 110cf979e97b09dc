"""An invitation to an organization, for the owner of an e-mail address."""

from dataclasses import dataclass
from datetime import datetime

from bough.domain.organization import MemberRole
from bough.ids import InvitationId, OrganizationId, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    id: InvitationId
    org_id: OrganizationId
    email: str
    role: MemberRole
    digest: str  # of the token in the mailed link
    invited_by: UserId
    invited_at: datetime
    expires_at: datetime

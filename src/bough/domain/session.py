"""A browser session of a signed-in user."""

from dataclasses import dataclass
from datetime import datetime

from bough.ids import UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    digest: str  # of the token in the cookie, which is not stored
    user_id: UserId
    address: str
    agent: str
    created_at: datetime
    expires_at: datetime

"""A user account. The owner has confirmed the e-mail address."""

from dataclasses import dataclass, field
from datetime import datetime

from bough.ids import UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    id: UserId
    email: str
    name: str
    last_name: str
    plan: str
    created_at: datetime
    updated_at: datetime
    password_digest: str | None = field(default=None, repr=False)  # None: cannot sign in yet

    @property
    def is_operator(self) -> bool:
        return self.id == OPERATOR


OPERATOR = UserId("00000000-0000-4000-8000-000000000001")  # created by the first migration

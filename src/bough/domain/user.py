"""A person with an account."""

from dataclasses import dataclass
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


OPERATOR = UserId("00000000-0000-4000-8000-000000000001")  # made by the first migration

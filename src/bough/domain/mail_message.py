"""A mail that waits to be sent. It may hold a link that opens an account, so its text is kept sealed."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MailMessage:
    id: int
    recipient: str | None  # None: nobody; written so that a caller cannot tell who has an account
    subject: str
    sealed_text: str
    tries: int
    created_at: datetime
    due_at: datetime

"""A mail that waits to be sent. It may contain a link that grants access, so its text is encrypted."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MailMessage:
    id: int
    # None: the mail is discarded. It is queued only so that a request takes equally long with and without an account.
    recipient: str | None
    subject: str
    sealed_text: str
    tries: int
    created_at: datetime
    due_at: datetime

"""Named queries on mail messages that wait to be sent."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.mail_message import MailMessage
from bough.store.queries import Queries, equals_param
from bough.store.row_mapping import from_row
from bough.store.tables import mail_messages

_DUE = (
    sa.select(mail_messages)
    .where(mail_messages.c.due_at <= sa.bindparam("now", type_=mail_messages.c.due_at.type))
    .order_by(mail_messages.c.due_at, mail_messages.c.id)
    .limit(sa.bindparam("row_limit", type_=sa.Integer()))
)


class MailMessages(Queries):
    async def add(self, recipient: str | None, subject: str, sealed_text: str, now: datetime) -> None:
        values = {"recipient": recipient, "subject": subject, "sealed_text": sealed_text}
        await self._insert(mail_messages, {**values, "tries": 0, "created_at": now, "due_at": now})

    async def list_due(self, now: datetime, limit: int) -> list[MailMessage]:
        return [from_row(MailMessage, row) for row in await self._all(_DUE, now=now, row_limit=limit)]

    async def postpone(self, message: MailMessage, until: datetime) -> None:
        later = (
            sa.update(mail_messages)
            .where(mail_messages.c.id == message.id)
            .values(due_at=until, tries=message.tries + 1)
        )
        await self._run(later)

    async def remove(self, message_id: int) -> None:
        await self._run(sa.delete(mail_messages).where(equals_param(mail_messages.c.id)), id=message_id)

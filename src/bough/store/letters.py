"""Named queries on mails that wait to be sent."""

from datetime import datetime

import sqlalchemy as sa

from bough.domain.letter import Letter
from bough.store.queries import Queries, same
from bough.store.rebuild import rebuild
from bough.store.tables import letters

_DUE = (
    sa.select(letters)
    .where(letters.c.due_at <= sa.bindparam("now", type_=letters.c.due_at.type))
    .order_by(letters.c.due_at, letters.c.id)
    .limit(sa.bindparam("row_limit", type_=sa.Integer()))
)


class Letters(Queries):
    async def add(self, recipient: str | None, subject: str, sealed_text: str, now: datetime) -> None:
        values = {"recipient": recipient, "subject": subject, "sealed_text": sealed_text}
        await self._insert(letters, {**values, "tries": 0, "created_at": now, "due_at": now})

    async def due(self, now: datetime, limit: int) -> list[Letter]:
        return [rebuild(Letter, row) for row in await self._all(_DUE, now=now, row_limit=limit)]

    async def postpone(self, letter: Letter, until: datetime) -> None:
        later = sa.update(letters).where(letters.c.id == letter.id).values(due_at=until, tries=letter.tries + 1)
        await self._run(later)

    async def remove(self, letter_id: int) -> None:
        await self._run(sa.delete(letters).where(same(letters.c.id)), id=letter_id)

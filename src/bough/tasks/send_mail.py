"""Mails that wait are sent; what the server does not take is tried again, less and less often, for three days."""

import asyncio
from datetime import timedelta

from bough import clock, log
from bough.access.vault import Vault
from bough.config import Settings
from bough.control import mail, postman
from bough.domain.letter import Letter
from bough.errors import PreconditionFailed, Unavailable
from bough.store.store import Store

AT_ONCE = 20
FIRST_PAUSE = timedelta(seconds=15)
LONGEST_PAUSE = timedelta(hours=2)
GIVEN_UP_AFTER = timedelta(days=3)

logger = log.get(room="tasks")


class SendMail:
    every = 1.0

    def __init__(self, settings: Settings, store: Store, vault: Vault) -> None:
        self._settings = settings
        self._store = store
        self._vault = vault

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.letters.due(clock.now(), AT_ONCE)
        sent = sum([await self._send(letter) for letter in due])
        return f"sent {sent} mails" if sent else ""

    async def _send(self, letter: Letter) -> bool:
        """A crash between sending and forgetting sends it twice, which is better than never."""
        try:
            if letter.recipient is not None:
                text = mail.text_of(self._vault, letter)
                await asyncio.to_thread(postman.deliver, self._settings, letter.recipient, letter.subject, text)
        except Unavailable as error:
            return await self._postpone(letter, error.public)
        except PreconditionFailed as error:  # sealed with keys that are gone
            logger.error("mail_given_up", letter=letter.id, reason=error.public)
        async with self._store.transaction() as rows:
            await rows.letters.remove(letter.id)
        return letter.recipient is not None

    async def _postpone(self, letter: Letter, reason: str) -> bool:
        now = clock.now()
        gives_up = now - letter.created_at > GIVEN_UP_AFTER
        logger.error("mail_given_up" if gives_up else "mail_postponed", letter=letter.id, reason=reason)
        async with self._store.transaction() as rows:
            if gives_up:
                await rows.letters.remove(letter.id)
            else:
                await rows.letters.postpone(letter, now + min(FIRST_PAUSE * 2 ** min(letter.tries, 12), LONGEST_PAUSE))
        return False

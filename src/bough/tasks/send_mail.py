"""Mails that wait are sent; what the server does not take is tried again, less and less often, for three days."""

import asyncio
from datetime import timedelta

from bough import clock, log
from bough.access.vault import Vault
from bough.config import Settings
from bough.control.platform import mail
from bough.domain.mail_message import MailMessage
from bough.errors import PreconditionFailed, Unavailable
from bough.store.store import Store

BATCH_SIZE = 20
MIN_RETRY_DELAY = timedelta(seconds=15)
MAX_RETRY_DELAY = timedelta(hours=2)
GIVE_UP_AFTER = timedelta(days=3)

logger = log.get_logger(component="tasks")


class SendMail:
    interval = 1.0

    def __init__(self, settings: Settings, store: Store, vault: Vault) -> None:
        self._settings = settings
        self._store = store
        self._vault = vault

    async def run(self) -> str:
        async with self._store.read() as rows:
            due = await rows.mail_messages.list_due(clock.now(), BATCH_SIZE)
        sent = sum([await self._send(letter) for letter in due])
        return f"sent {sent} mails" if sent else ""

    async def _send(self, letter: MailMessage) -> bool:
        """A crash between sending and forgetting sends it twice, which is better than never."""
        try:
            if letter.recipient is not None:
                text = mail.open_text(self._vault, letter)
                await asyncio.to_thread(mail.deliver, self._settings, letter.recipient, letter.subject, text)
        except Unavailable as error:
            return await self._postpone(letter, error.public_message)
        except PreconditionFailed as error:  # sealed with keys that are gone
            logger.error("mail_given_up", letter=letter.id, reason=error.public_message)
        async with self._store.transaction() as rows:
            await rows.mail_messages.remove(letter.id)
        return letter.recipient is not None

    async def _postpone(self, letter: MailMessage, reason: str) -> bool:
        now = clock.now()
        gives_up = now - letter.created_at > GIVE_UP_AFTER
        logger.error("mail_given_up" if gives_up else "mail_postponed", letter=letter.id, reason=reason)
        async with self._store.transaction() as rows:
            if gives_up:
                await rows.mail_messages.remove(letter.id)
            else:
                await rows.mail_messages.postpone(
                    letter, now + min(MIN_RETRY_DELAY * 2 ** min(letter.tries, 12), MAX_RETRY_DELAY)
                )
        return False

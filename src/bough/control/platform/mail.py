"""Mails: written in the transaction that they tell of, sent by `tasks/send_mail.py` a moment later.

So none is lost with a crash, and no caller can tell by the time it takes whether there was one to send.
"""

from bough import clock
from bough.access.vault import Vault
from bough.config import DEFAULT_API_PORT, Settings
from bough.domain.mail_message import MailMessage
from bough.store.store import Rows

SEALING_PURPOSE = "letter"
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  an address to listen on, not one to go to


async def enqueue_mail(rows: Rows, vault: Vault, recipient: str | None, subject: str, text: str) -> None:
    """Without a recipient it is never sent: what is done looks the same from outside."""
    await rows.mail_messages.add(recipient, subject, vault.seal(text, SEALING_PURPOSE), clock.now())


def to_single_line(name: str) -> str:
    """A name that ends no line, and so begins no header of a mail."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in name).split())


def open_text(vault: Vault, message: MailMessage) -> str:
    return vault.open(message.sealed_text, SEALING_PURPOSE)


def page_url(settings: Settings, path: str) -> str:
    """An address of ours for people. Never made from what a request says about its host."""
    return public_url(settings) + path


def public_url(settings: Settings) -> str:
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host = _EVERYWHERE.get(settings.listen, f"[{settings.listen}]" if ":" in settings.listen else settings.listen)
    return f"http://{host}:{settings.api_port or DEFAULT_API_PORT}"

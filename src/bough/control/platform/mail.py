"""Mail to people. A mail is stored in the transaction that it reports on, and `tasks/send_mail.py` sends it later.

So a crash loses no mail, and the response time does not reveal whether a mail is sent. Mail goes to the SMTP server of
the settings, or into the log when none is set. The server's password is sent over TLS only, unless the server is on
this machine.
"""

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from urllib.parse import SplitResult, unquote, urlsplit

from bough import clock, log
from bough.access.vault import Vault
from bough.config import DEFAULT_API_PORT, Settings
from bough.domain.mail_message import MailMessage
from bough.errors import Unavailable
from bough.store.store import Rows

SEALING_PURPOSE = "letter"
_LOOPBACK_FOR = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  addresses to listen on, not to connect to


async def enqueue_mail(rows: Rows, vault: Vault, recipient: str | None, subject: str, text: str) -> None:
    """Store a mail for sending. Without a recipient it is never sent, but the work is the same."""
    await rows.mail_messages.add(recipient, subject, vault.seal(text, SEALING_PURPOSE), clock.now())


def to_single_line(name: str) -> str:
    """Remove line breaks from a name, so that it cannot inject a mail header."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in name).split())


def open_text(vault: Vault, message: MailMessage) -> str:
    return vault.open(message.sealed_text, SEALING_PURPOSE)


def page_url(settings: Settings, path: str) -> str:
    """Return a URL of this installation. It never depends on the Host header of a request."""
    return public_url(settings) + path


def public_url(settings: Settings) -> str:
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host = _LOOPBACK_FOR.get(settings.listen, f"[{settings.listen}]" if ":" in settings.listen else settings.listen)
    return f"http://{host}:{settings.api_port or DEFAULT_API_PORT}"


_TIMEOUT = 30.0  # seconds
_PORTS = {"smtp": 25, "smtps": 465}
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")

logger = log.get_logger(component="mail")


def deliver(settings: Settings, recipient: str, subject: str, text: str) -> None:
    """Send a mail. Blocks; raises Unavailable if the server is unreachable or rejects it."""
    if not settings.smtp_url:
        # Without a mail server the operator passes links on by hand, so the text must be readable in the log.
        logger.info("mail_not_sent", to=recipient, subject=subject, text=text)
        return
    try:
        _send(urlsplit(settings.smtp_url), build_message(settings, recipient, subject, text))
    except (OSError, smtplib.SMTPException, ssl.SSLError) as error:
        raise Unavailable(f"The mail server did not accept an e-mail: {error}.") from error


def build_message(settings: Settings, recipient: str, subject: str, text: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = f"Bough <{settings.mail_from}>"
    message["To"] = recipient
    message["Subject"] = " ".join(subject.split())  # a single line, even if names in it contain line breaks
    message["Date"] = format_datetime(clock.now())
    message["Message-ID"] = make_msgid(domain=settings.mail_from.partition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    return message


def _send(server: SplitResult, mail: EmailMessage) -> None:
    host, port = server.hostname or "localhost", server.port or _PORTS[server.scheme]
    context = ssl.create_default_context()
    if server.scheme == "smtps":
        client: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT, context=context)
    else:
        client = smtplib.SMTP(host, port, timeout=_TIMEOUT)
    with client:
        client.ehlo()
        is_encrypted = server.scheme == "smtps"
        if not is_encrypted and client.has_extn("starttls"):
            client.starttls(context=context)
            client.ehlo()
            is_encrypted = True
        if server.username:
            if not is_encrypted and host not in _LOCAL_HOSTS:
                raise smtplib.SMTPException("it offers no TLS, so the password was not sent")
            client.login(unquote(server.username), unquote(server.password or ""))
        client.send_message(mail)

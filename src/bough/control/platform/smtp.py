"""How a mail leaves: by the SMTP server of the settings, or into the log when there is none.

A password for the server travels by TLS only, unless the server is on this machine.
"""

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from urllib.parse import SplitResult, unquote, urlsplit

from bough import clock, log
from bough.config import Settings
from bough.errors import Unavailable

_TIMEOUT = 30.0  # seconds
_PORTS = {"smtp": 25, "smtps": 465}
_HERE = ("localhost", "127.0.0.1", "::1")

logger = log.get_logger(component="mail")


def deliver(settings: Settings, recipient: str, subject: str, text: str) -> None:
    """Blocks; raises Unavailable when the server cannot be reached or will not have it."""
    if not settings.smtp_url:
        # Whoever runs the platform without a mail server hands links over by hand: they must be readable here.
        logger.info("mail_not_sent", to=recipient, subject=subject, text=text)
        return
    try:
        _send(urlsplit(settings.smtp_url), build_message(settings, recipient, subject, text))
    except (OSError, smtplib.SMTPException, ssl.SSLError) as error:
        raise Unavailable(f"The mail server did not take a mail: {error}.") from error


def build_message(settings: Settings, recipient: str, subject: str, text: str) -> EmailMessage:
    made = EmailMessage()
    made["From"] = f"Bough <{settings.mail_from}>"
    made["To"] = recipient
    made["Subject"] = " ".join(subject.split())  # one line, whatever is in the names it holds
    made["Date"] = format_datetime(clock.now())
    made["Message-ID"] = make_msgid(domain=settings.mail_from.partition("@")[2])
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(text)
    return made


def _send(server: SplitResult, mail: EmailMessage) -> None:
    host, port = server.hostname or "localhost", server.port or _PORTS[server.scheme]
    context = ssl.create_default_context()
    if server.scheme == "smtps":
        client: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT, context=context)
    else:
        client = smtplib.SMTP(host, port, timeout=_TIMEOUT)
    with client:
        client.ehlo()
        is_private = server.scheme == "smtps"
        if not is_private and client.has_extn("starttls"):
            client.starttls(context=context)
            client.ehlo()
            is_private = True
        if server.username:
            if not is_private and host not in _HERE:
                raise smtplib.SMTPException("it offers no TLS, so it does not get our password")
            client.login(unquote(server.username), unquote(server.password or ""))
        client.send_message(mail)

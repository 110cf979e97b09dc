"""Mail reaches a real SMTP server unchanged; without a server it is written to the log."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from email import message_from_string
from email.policy import default
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bough import clock
from bough.access.vault import Vault
from bough.config import Settings
from bough.control.platform import mail
from bough.store.sqlite import SqliteStore
from bough.tasks.send_mail import GIVE_UP_AFTER, SendMail

VAULT = Vault(b"k" * 32)


class SmtpStub:
    """An SMTP server with the minimum that is needed to receive a mail."""

    def __init__(self, rejections: int = 0) -> None:
        self.received: list[str] = []
        self.received_lines: list[str] = []
        self.rejections = rejections  # number of mails to reject before accepting one

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().strip():
            self.received_lines.append(line)
            match line.split()[0].upper():
                case "EHLO":
                    writer.write(b"250-here\r\n250 AUTH PLAIN\r\n")
                case "AUTH":
                    writer.write(b"235 welcome\r\n")
                case "DATA":
                    writer.write(b"354 go on\r\n")
                    text = (await reader.readuntil(b"\r\n.\r\n")).decode()
                    self.rejections -= 1
                    if self.rejections < 0:
                        self.received.append(text[: -len(".\r\n")])
                    writer.write(b"250 accepted\r\n" if self.rejections < 0 else b"451 not now\r\n")
                case "QUIT":
                    writer.write(b"221 bye\r\n")
                    break
                case _:
                    writer.write(b"250 fine\r\n")
        writer.close()


@asynccontextmanager
async def serve(server: SmtpStub) -> AsyncIterator[str]:
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    async with listener:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    created = SqliteStore(tmp_path / "store.db")
    await created.open()
    yield created
    await created.close()


async def _enqueue_mail(
    store: SqliteStore, recipient: str | None, subject: str = "Hello", text: str = "A line.\n"
) -> None:
    async with store.transaction() as rows:
        await mail.enqueue_mail(rows, VAULT, recipient, subject, text)


async def _count_unsent(store: SqliteStore) -> int:
    async with store.read() as rows:
        return len(await rows.mail_messages.list_due(clock.now() + timedelta(days=9), 100))


async def test_a_mail_arrives_whole_and_only_once(store: SqliteStore) -> None:
    server = SmtpStub()
    await _enqueue_mail(
        store, "ada@example.com", "Grüße aus dem Wald", "Erste Zeile.\n.\nhttp://x/?token=" + "t" * 90 + "\n"
    )
    async with serve(server) as address:
        task = SendMail(Settings(smtp_url=f"smtp://me:s%40cret@{address}", mail_from="bough@example.org"), store, VAULT)
        assert await task.run() == "sent 1 mails"
        assert await task.run() == ""
    (raw,) = server.received
    message = message_from_string(raw.replace("\r\n..", "\r\n."), policy=default)
    assert (message["To"], message["From"]) == ("ada@example.com", "Bough <bough@example.org>")
    assert message["Subject"] == "Grüße aus dem Wald"
    assert message.get_content().replace("\r\n", "\n") == "Erste Zeile.\n.\nhttp://x/?token=" + "t" * 90 + "\n"
    assert any(line.startswith("AUTH PLAIN") for line in server.received_lines)


async def test_what_the_server_refuses_is_tried_again_later(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = SmtpStub(rejections=1)
    await _enqueue_mail(store, "ada@example.com")
    async with serve(server) as address:
        task = SendMail(Settings(smtp_url=f"smtp://{address}"), store, VAULT)
        assert await task.run() == ""
        assert await task.run() == ""  # not yet
        assert (server.received, await _count_unsent(store)) == ([], 1)
        later = clock.now() + timedelta(minutes=1)
        monkeypatch.setattr(clock, "now", lambda: later)
        assert await task.run() == "sent 1 mails"
    assert (len(server.received), await _count_unsent(store)) == (1, 0)


async def test_a_server_that_is_away_for_days_ends_the_trying(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _enqueue_mail(store, "ada@example.com")
    async with serve(SmtpStub()) as address:
        pass  # the port is closed now
    task = SendMail(Settings(smtp_url=f"smtp://{address}"), store, VAULT)
    with capture_logs() as lines:
        await task.run()
        assert await _count_unsent(store) == 1
        later = clock.now() + GIVE_UP_AFTER + timedelta(minutes=1)
        monkeypatch.setattr(clock, "now", lambda: later)
        await task.run()
    assert [line["event"] for line in lines] == ["mail_postponed", "mail_given_up"]
    assert await _count_unsent(store) == 0


async def test_without_a_server_the_log_has_the_text(store: SqliteStore) -> None:
    await _enqueue_mail(store, "ada@example.com", text="Open http://127.0.0.1/reset?token=abc\n")
    with capture_logs() as lines:
        await SendMail(Settings(), store, VAULT).run()
    (line,) = lines
    assert (line["event"], line["to"]) == ("mail_not_sent", "ada@example.com")
    assert "reset?token=abc" in line["text"]


async def test_a_mail_to_nobody_goes_nowhere(store: SqliteStore) -> None:
    server = SmtpStub()
    await _enqueue_mail(store, None)
    async with serve(server) as address:
        assert await SendMail(Settings(smtp_url=f"smtp://{address}"), store, VAULT).run() == ""
    assert (server.received, await _count_unsent(store)) == ([], 0)


async def test_the_store_holds_no_readable_text(store: SqliteStore, tmp_path: Path) -> None:
    await _enqueue_mail(store, "ada@example.com", text="secret link")
    async with store.read() as rows:
        (message,) = await rows.mail_messages.list_due(clock.now(), 10)
    assert "secret" not in message.sealed_text
    assert b"secret link" not in (tmp_path / "store.db-wal").read_bytes()


async def test_names_add_no_lines_to_the_head_of_a_mail() -> None:
    created = mail.build_message(Settings(), "ada@example.com", "Join evil\r\nBcc: all@example.com\nX: y", "text")
    head = created.as_string().partition("\n\n")[0]
    assert "\nBcc" not in head
    assert "\nX:" not in head
    with pytest.raises(ValueError, match=r"newline|linefeed"):
        mail.build_message(Settings(), "ada@example.com\r\nBcc: all@example.com", "Hello", "text")


async def test_a_password_is_not_told_to_a_server_elsewhere_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SmtpStub()
    monkeypatch.setattr(mail, "_LOCAL_HOSTS", ())
    async with serve(server) as address:
        with pytest.raises(Exception, match="no TLS"):
            settings = Settings(smtp_url=f"smtp://me:secret@{address}")
            await asyncio.to_thread(mail.deliver, settings, "ada@example.com", "Hello", "text")
    assert not any("AUTH" in line for line in server.received_lines)

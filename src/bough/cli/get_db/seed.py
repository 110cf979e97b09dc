"""`--seed`: an SQL file, read before there is a database and run as a whole when there is one.

It goes to Postgres in one message, so it is one transaction and either all of it is there or nothing.
"""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg

from bough.cli.get_db import sql_script
from bough.errors import Invalid, PlatformError

CONNECT_TIMEOUT = 60.0
_LOOPBACK = "127.0.0.1"


class SeedFailed(PlatformError):
    pass


@dataclass(frozen=True, slots=True)
class Seed:
    display_name: str  # as the user calls it
    text: str

    @classmethod
    def read(cls, display_name: str) -> "Seed":
        try:
            text = Path(display_name).read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise Invalid(f"The seed {display_name} cannot be read: {error.strerror}. Nothing was created.") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise Invalid(f"The seed {display_name} is no UTF-8 at line {line}. Nothing was created.") from None
        if "\0" in text:
            raise Invalid(f"The seed {display_name} is no text: there is a zero byte in it. Nothing was created.")
        if (copied := sql_script.find_copy_from_stdin(text)) is not None:
            sentence = (
                f"The seed {display_name} has data for psql at line {copied} (COPY … FROM stdin); make it INSERTs, as"
            )
            raise Invalid(f"{sentence} `pg_dump --inserts` does. Nothing was created.")
        return cls(display_name, text)

    def run(self, connection_string: str) -> None:
        if any(sql_script.split_statements(self.text)):
            asyncio.run(self._run(connection_string))

    async def _run(self, connection_string: str) -> None:
        try:
            session = await _connect(connection_string)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise SeedFailed(
                f"The seed {self.display_name} was not run, for the database cannot be reached: {why}"
            ) from None
        try:
            await session.execute(self.text)
            if session.is_in_transaction():
                raise SeedFailed(
                    f"{self.display_name} begins a transaction and does not end it: what is in it was not kept."
                )
            await session.close(timeout=CONNECT_TIMEOUT)
        except (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, TimeoutError):
            raise SeedFailed(
                f"The connection was lost while {self.display_name} ran; see with psql what is there."
            ) from None
        except asyncpg.PostgresError as error:
            raise await self._make_error(session, error) from None
        finally:
            session.terminate()

    async def _make_error(self, session: asyncpg.Connection, error: asyncpg.PostgresError) -> SeedFailed:
        ended = sql_script.has_transaction_end(self.text)
        fault: sql_script.ScriptLine | None = None
        if getattr(error, "position", None):
            fault = sql_script.locate(self.text, int(error.position))
        elif not ended and not session.is_closed():
            fault = await self._locate_error(session, error)
        kept = "It ends transactions itself: what came before may have been kept." if ended else ""
        return SeedFailed(
            f"The seed failed at {self.display_name}{f':{fault.line}' if fault else ''}: {error.message}"
            + (f"\n  {fault.line} | {fault.text}" if fault else "")
            + (f"\n  {error.detail}" if getattr(error, "detail", None) else "")
            + f"\n{kept or 'Nothing of the seed was kept.'}"
        )

    async def _locate_error(
        self, session: asyncpg.Connection, error: asyncpg.PostgresError
    ) -> sql_script.ScriptLine | None:
        """Where it failed, for an error that does not say: once more, one by one, in a transaction that is undone."""
        try:
            await session.execute("begin")
            for position, statement in sql_script.split_statements(self.text):
                try:
                    await session.execute(statement)
                except asyncpg.PostgresError as again:
                    return sql_script.locate(self.text, position) if again.sqlstate == error.sqlstate else None
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pass
        return None


async def _connect(connection_string: str) -> asyncpg.Connection:
    """Encrypted and, as `sslmode=require` says, without asking who signed the certificate."""
    parts = urlsplit(connection_string)
    host = parts.hostname or ""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    settings: dict[str, Any] = {
        "port": parts.port or 5432,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "database": unquote(parts.path.removeprefix("/")),
        "ssl": context,
        "timeout": CONNECT_TIMEOUT,
    }
    try:
        return await asyncpg.connect(host=host, **settings)
    except socket.gaierror:
        if not host.endswith(".localhost"):
            raise
    # Such names are this machine, whatever its resolver knows; the gateway is told in another way who is meant.
    endpoint = host.partition(".")[0]
    return await asyncpg.connect(host=_LOOPBACK, server_settings={"options": f"endpoint={endpoint}"}, **settings)

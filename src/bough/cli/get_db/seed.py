"""`--seed`: an SQL file that is read before the database is created and run afterwards.

It is sent to Postgres in one message, so it runs in one transaction and takes effect completely or not at all.
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
    display_name: str  # as the user typed it
    text: str

    @classmethod
    def read(cls, display_name: str) -> "Seed":
        try:
            text = Path(display_name).read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise Invalid(f"The seed {display_name} cannot be read: {error.strerror}. Nothing was created.") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise Invalid(f"The seed {display_name} is not UTF-8 at line {line}. Nothing was created.") from None
        if "\0" in text:
            raise Invalid(f"The seed {display_name} is not text: it contains a zero byte. Nothing was created.")
        if (line_number := sql_script.find_copy_from_stdin(text)) is not None:
            raise Invalid(
                f"The seed {display_name} has data for psql at line {line_number} (COPY … FROM stdin); "
                "use INSERT instead, as `pg_dump --inserts` does. Nothing was created."
            )
        return cls(display_name, text)

    def run(self, connection_string: str) -> None:
        if any(sql_script.split_statements(self.text)):
            asyncio.run(self._run(connection_string))

    async def _run(self, connection_string: str) -> None:
        try:
            connection = await _connect(connection_string)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise SeedFailed(
                f"The seed {self.display_name} was not run, because connecting to the database failed: {reason}"
            ) from None
        try:
            await connection.execute(self.text)
            if connection.is_in_transaction():
                raise SeedFailed(
                    f"{self.display_name} begins a transaction and does not end it: its changes were not kept."
                )
            await connection.close(timeout=CONNECT_TIMEOUT)
        except (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, TimeoutError):
            raise SeedFailed(
                f"The connection was lost while {self.display_name} ran; check with psql which changes were made."
            ) from None
        except asyncpg.PostgresError as error:
            raise await self._make_error(connection, error) from None
        finally:
            connection.terminate()

    async def _make_error(self, connection: asyncpg.Connection, error: asyncpg.PostgresError) -> SeedFailed:
        has_transaction_end = sql_script.has_transaction_end(self.text)
        error_line: sql_script.ScriptLine | None = None
        if getattr(error, "position", None):
            error_line = sql_script.locate(self.text, int(error.position))
        elif not has_transaction_end and not connection.is_closed():
            error_line = await self._locate_error(connection, error)
        outcome = (
            "The seed ends transactions itself, so earlier changes may have been kept."
            if has_transaction_end
            else "No change of the seed was kept."
        )
        return SeedFailed(
            f"The seed failed at {self.display_name}{f':{error_line.line}' if error_line else ''}: {error.message}"
            + (f"\n  {error_line.line} | {error_line.text}" if error_line else "")
            + (f"\n  {error.detail}" if getattr(error, "detail", None) else "")
            + f"\n{outcome}"
        )

    async def _locate_error(
        self, connection: asyncpg.Connection, error: asyncpg.PostgresError
    ) -> sql_script.ScriptLine | None:
        """Find the statement of an error without a position: run the statements one by one and roll back."""
        try:
            await connection.execute("begin")
            for position, statement in sql_script.split_statements(self.text):
                try:
                    await connection.execute(statement)
                except asyncpg.PostgresError as repeated:
                    return sql_script.locate(self.text, position) if repeated.sqlstate == error.sqlstate else None
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            pass
        return None


async def _connect(connection_string: str) -> asyncpg.Connection:
    """Connect with TLS and, like `sslmode=require`, do not verify the certificate."""
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
    # Names under localhost mean this machine, even if they do not resolve. The option tells the gateway the endpoint.
    endpoint = host.partition(".")[0]
    return await asyncpg.connect(host=_LOOPBACK, server_settings={"options": f"endpoint={endpoint}"}, **settings)

"""Read which extensions the databases of a running compute have. A tenant's code may answer, so all is limited."""

import asyncio
from pathlib import Path

from bough.engine.local.computes.query_results import is_utf8, parse_name, parse_text
from bough.engine.local.computes.session import INSPECTION_LIMITS, open_session
from bough.engine.local.volumes.extension_record import ExtensionRecord
from bough.engine.port import EngineError
from bough.postgres import output_plugins
from bough.postgres.extension_list import MAX_LISTED, MAX_VERSION_LENGTH, SELECT_EXTENSIONS

_MAX_DATABASES = 200
_MAX_EXTENSIONS = 2000  # of all databases


async def read_extensions(sockets: Path, major: int, *, timeout: float) -> ExtensionRecord:
    """Return what could be read in time. Raise an EngineError if not even the databases can be listed."""
    async with open_session(sockets, limits=INSPECTION_LIMITS) as session:
        rows = await session.fetch(output_plugins.SELECT_DATABASES)
    readable = [row["name"].decode() for row in rows if row["allows_connections"] and is_utf8(row["name"])]
    closed = [row for row in rows if not (row["allows_connections"] and is_utf8(row["name"]))]
    is_complete = len(readable) <= _MAX_DATABASES and all(_is_empty_database(row["name"]) for row in closed)
    found: list[tuple[str, str]] = []
    try:
        async with asyncio.timeout(timeout):
            for name in readable[:_MAX_DATABASES]:
                extensions = await _read_database(sockets, name, major)
                is_complete &= len(extensions) <= MAX_LISTED
                found += extensions
                if len(found) > _MAX_EXTENSIONS:
                    raise EngineError("The databases have too many extensions.")
    except (EngineError, TimeoutError):
        is_complete = False
    return ExtensionRecord.of(found[:_MAX_EXTENSIONS], is_complete=is_complete)


async def _read_database(sockets: Path, name: str, major: int) -> list[tuple[str, str]]:
    async with open_session(sockets, name, major, INSPECTION_LIMITS) as session:
        rows = await session.fetch(SELECT_EXTENSIONS)
        return [
            (parse_name(row["name"]).decode(errors="replace"), parse_text(row["version"], MAX_VERSION_LENGTH))
            for row in rows
        ]


def _is_empty_database(name: bytes) -> bool:
    return name == output_plugins.NO_CONNECTIONS_DATABASE.encode()

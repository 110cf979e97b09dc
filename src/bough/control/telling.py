"""Telling the gateway's workers on this machine that what they remember is not true any more.

Each listens in their folder. Whoever does not answer is gone, or will hear of it with the answer to its next report.
"""

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from bough.ids import EndpointId

FORGET = "forget"
_SECONDS = 1.0  # for a worker that is busy


async def forget(folder: Path, endpoints: Collection[EndpointId]) -> None:
    """When it is over, nobody lets a client in by what was true before."""
    sockets = await asyncio.to_thread(lambda: list(folder.glob("worker-*.sock")))
    await asyncio.gather(*(_say(path, endpoints) for path in sockets))


async def _say(path: Path, endpoints: Collection[EndpointId]) -> None:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(json.dumps([FORGET, list(endpoints)]).encode() + b"\n")
                await reader.readline()
            finally:
                writer.close()

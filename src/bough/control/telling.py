"""Telling the gateway's workers on this machine that what they remember is not true any more, and what is instead.

Each listens in their folder. Whoever does not answer is gone, or will hear of it with the answer to its next report.
"""

import asyncio
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bough.ids import EndpointId

FORGET = "forget"
HINT = "hint"
END = "end"
_SECONDS = 1.0  # for a worker that is busy


async def forget(folder: Path, endpoints: Collection[EndpointId]) -> None:
    """When it is over, nobody lets a client in by what was true before."""
    await _say_all(folder, FORGET, list(endpoints))


async def hint(folder: Path, hints: Mapping[EndpointId, str | None]) -> None:
    """What clients of these endpoints are told who cannot write, also those that are connected; None: there is room."""
    await _say_all(folder, HINT, dict(hints))


async def end(folder: Path, endpoints: Collection[EndpointId], why: str) -> None:
    """Their compute is about to end: clients that wait for nothing are told why, and let go."""
    await _say_all(folder, END, {"endpoints": list(endpoints), "why": why})


async def _say_all(folder: Path, name: str, body: Any) -> None:
    sockets = await asyncio.to_thread(lambda: list(folder.glob("worker-*.sock")))
    await asyncio.gather(*(_say(path, name, body) for path in sockets))


async def _say(path: Path, name: str, body: Any) -> None:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(json.dumps([name, body]).encode() + b"\n")
                await reader.readline()
            finally:
                writer.close()

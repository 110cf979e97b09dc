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


async def invalidate_endpoints(folder: Path, endpoints: Collection[EndpointId]) -> None:
    """When it is over, nobody lets a client in by what was true before."""
    await _send_to_all(folder, FORGET, list(endpoints))


async def send_hints(folder: Path, hints: Mapping[EndpointId, str | None]) -> None:
    """What clients of these endpoints are told who cannot write, also those that are connected; None: there is room."""
    await _send_to_all(folder, HINT, dict(hints))


async def end_sessions(folder: Path, endpoints: Collection[EndpointId], reason: str) -> None:
    """Their compute is about to end: clients that wait for nothing are told why, and let go."""
    await _send_to_all(folder, END, {"endpoints": list(endpoints), "why": reason})


async def _send_to_all(folder: Path, name: str, body: Any) -> None:
    sockets = await asyncio.to_thread(lambda: list(folder.glob("worker-*.sock")))
    await asyncio.gather(*(_send(path, name, body) for path in sockets))


async def _send(path: Path, name: str, body: Any) -> None:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(json.dumps([name, body]).encode() + b"\n")
                await reader.readline()
            finally:
                writer.close()

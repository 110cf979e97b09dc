"""Sends notifications to the gateway's workers on this machine.

Each worker listens on a socket in the gateway's folder. A worker that does not respond is gone, or drops its
cached access replies with the reply to its next report.
"""

import asyncio
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bough.control.gateway.activity import EndpointActivity
from bough.domain.gateway_protocol import (
    END_SESSIONS,
    INVALIDATE_ENDPOINTS,
    NOTIFICATION_TIMEOUT_SECONDS,
    SET_HINTS,
    EndSessions,
)
from bough.ids import EndpointId


class GatewayNotifier:
    """The notifications for operations, which do not know the gateway's folder."""

    def __init__(self, folder: Path, activity: EndpointActivity) -> None:
        self._folder = folder
        self._activity = activity

    async def end_sessions(self, endpoints: Collection[EndpointId], reason: str) -> None:
        await end_sessions(self._folder, endpoints, reason)

    async def invalidate(self, endpoints: Collection[EndpointId]) -> None:
        for endpoint in endpoints:
            self._activity.invalidate(endpoint)
        await invalidate_endpoints(self._folder, endpoints)


async def invalidate_endpoints(folder: Path, endpoints: Collection[EndpointId]) -> None:
    """Return when no worker uses a cached access reply about these endpoints any more."""
    await _send_to_all(folder, INVALIDATE_ENDPOINTS, list(endpoints))


async def send_hints(folder: Path, hints: Mapping[EndpointId, str | None]) -> None:
    """Set the hint for clients that cannot write, for open connections too; None: writes are allowed."""
    await _send_to_all(folder, SET_HINTS, dict(hints))


async def end_sessions(folder: Path, endpoints: Collection[EndpointId], reason: str) -> None:
    """Close the idle sessions of these endpoints with this reason: their compute is about to stop."""
    await _send_to_all(folder, END_SESSIONS, EndSessions(endpoints=list(endpoints), reason=reason).to_json())


async def _send_to_all(folder: Path, name: str, body: Any) -> None:
    sockets = await asyncio.to_thread(lambda: list(folder.glob("worker-*.sock")))
    await asyncio.gather(*(_send(path, name, body) for path in sockets))


async def _send(path: Path, name: str, body: Any) -> None:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(NOTIFICATION_TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(json.dumps([name, body]).encode() + b"\n")
                await reader.readline()
            finally:
                writer.close()

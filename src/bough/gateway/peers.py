"""The other workers of this gateway, each reached by a socket in the gateway's folder.

A request is one line of JSON with a name and a body, and so is the reply. Draining workers take part. A worker
that was killed does not: its lock file is unlocked.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bough.errors import Unavailable

MAX_WORKERS = 128
_REQUEST_TIMEOUT_SECONDS = 5.0

RequestHandlers = Mapping[str, Callable[[Any], Awaitable[Any]]]


class WorkerPeers:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.number, self._lock = _acquire_number(folder)
        self._server: asyncio.Server | None = None

    async def listen(self, handlers: RequestHandlers) -> None:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                name, body = json.loads(await reader.readline())
                writer.write(json.dumps(await handlers[name](body)).encode() + b"\n")
            writer.close()

        self._path(self.number).unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(handle, self._path(self.number))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._path(self.number).unlink(missing_ok=True)
        os.close(self._lock)

    def is_alive(self, number: int) -> bool:
        """Whether a running worker has that number."""
        fd = os.open(self._folder / f"worker-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            return False
        finally:
            os.close(fd)

    async def request(self, number: int, request_name: str, body: Any) -> Any:
        """Return the worker's reply, or None if it does not respond."""
        with suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_REQUEST_TIMEOUT_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._path(number))
                try:
                    writer.write(json.dumps([request_name, body]).encode() + b"\n")
                    return json.loads(await reader.readline())
                finally:
                    writer.close()
        return None

    async def request_any(self, request_name: str, body: Any) -> Any:
        """Ask one worker after another; return the first reply that is not None."""
        for path in self._folder.glob("worker-*.sock"):
            number = int(path.stem.removeprefix("worker-"))
            if number != self.number and (reply := await self.request(number, request_name, body)) is not None:
                return reply
        return None

    def _path(self, number: int) -> Path:
        return self._folder / f"worker-{number}.sock"


def _acquire_number(folder: Path) -> tuple[int, int]:
    """Lock the lowest free number; it stays ours while the file is open."""
    for number in range(MAX_WORKERS):
        fd = os.open(folder / f"worker-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
        else:
            return number, fd
    raise Unavailable(f"{MAX_WORKERS} gateway workers are running already; old ones still serve open connections.")

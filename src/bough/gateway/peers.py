"""The other workers of this gateway, each reached by a socket in their folder.

A question is a line of JSON with its name and its body; the answer is a line too. Workers that drain are
among them, and one that was killed is not: its lock is free again.
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
_SECONDS = 5.0

RequestHandlers = Mapping[str, Callable[[Any], Awaitable[Any]]]


class WorkerPeers:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.number, self._lock = _acquire_number(folder)
        self._server: asyncio.Server | None = None

    async def listen(self, handlers: RequestHandlers) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, ValueError, KeyError, TypeError):
                name, body = json.loads(await reader.readline())
                writer.write(json.dumps(await handlers[name](body)).encode() + b"\n")
            writer.close()

        self._path(self.number).unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(answer, self._path(self.number))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._path(self.number).unlink(missing_ok=True)
        os.close(self._lock)

    def is_alive(self, number: int) -> bool:
        """Whether a worker has that number."""
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
        """Its answer; None also when it is not there."""
        with suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._path(number))
                try:
                    writer.write(json.dumps([request_name, body]).encode() + b"\n")
                    return json.loads(await reader.readline())
                finally:
                    writer.close()
        return None

    async def request_any(self, request_name: str, body: Any) -> Any:
        """The first answer that is one."""
        for path in self._folder.glob("worker-*.sock"):
            number = int(path.stem.removeprefix("worker-"))
            if number != self.number and (answer := await self.request(number, request_name, body)) is not None:
                return answer
        return None

    def _path(self, number: int) -> Path:
        return self._folder / f"worker-{number}.sock"


def _acquire_number(folder: Path) -> tuple[int, int]:
    """The lowest number that no living worker has; it is ours as long as the file is open."""
    for number in range(MAX_WORKERS):
        fd = os.open(folder / f"worker-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
        else:
            return number, fd
    raise Unavailable(f"{MAX_WORKERS} gateway workers live already; the old ones still serve open connections.")

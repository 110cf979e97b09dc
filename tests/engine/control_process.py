"""A control process that a test can kill. It executes one method call of an engine per line (see `control_child`)."""

import asyncio
import itertools
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bough.config import Settings
from engine.control_child import CallArguments

TESTS = Path(__file__).parents[1]
_MAX_LINE = 2**20


class ControlKilled(Exception):
    """The control process ended before it replied."""


class EngineRejected(Exception):
    """The engine raised an EngineError."""

    def __init__(self, sentence: str, *, transient: bool) -> None:
        super().__init__(sentence)
        self.transient = transient


class ControlProcess:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it, and wait until its engine is prepared."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "engine.control_child", self._settings.model_dump_json()),
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_LINE,
        )
        ready = self._create_future(0)
        self._reading = asyncio.create_task(self._read(self._process))
        await ready

    def kill(self) -> None:
        self._running.kill()

    async def wait(self) -> None:
        """Wait for the end of a process that was killed or asked to end."""
        assert self._reading is not None
        await self._reading

    async def stop(self) -> None:
        """Stop it regularly. Computes keep running."""
        assert self._running.stdin is not None
        self._running.stdin.close()
        await self.wait()
        assert self._running.returncode == 0, "the control process did not end regularly"

    async def call(self, method: str, arguments: CallArguments) -> Any:
        number = next(self._numbers)
        future = self._create_future(number)
        assert self._running.stdin is not None
        with suppress(ConnectionError):
            self._running.stdin.write(f"{json.dumps([number, method, asdict(arguments)])}\n".encode())
        reply = await future
        if "error" in reply:
            raise EngineRejected(f"{method}: {reply['error']}", transient=reply["transient"])
        return reply["value"]

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the control process was never started"
        return self._process

    def _create_future(self, number: int) -> asyncio.Future[dict[str, Any]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        if self._reading is not None and self._reading.done() and number:
            future.set_exception(ControlKilled())
        return future

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            reply = json.loads(line)
            self._waiting.pop(reply["number"]).set_result({"value": None, **reply})
        await process.wait()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ControlKilled())
        self._waiting.clear()

"""A control process that a test can kill: it has an engine, and does one verb a line (see `control_child`)."""

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
    """Control ended before it answered."""


class EngineRejected(Exception):
    """The engine said no, in a sentence."""

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
        """Returns when its engine is prepared."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "engine.control_child", self._settings.model_dump_json()),
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_MAX_LINE,
        )
        ready = self._answer_to(0)
        self._reading = asyncio.create_task(self._read(self._process))
        await ready

    def kill(self) -> None:
        self._running.kill()

    async def wait(self) -> None:
        """Wait for the end of one that was killed or told to end."""
        assert self._reading is not None
        await self._reading

    async def stop(self) -> None:
        """In peace: computes go on."""
        assert self._running.stdin is not None
        self._running.stdin.close()
        await self.wait()
        assert self._running.returncode == 0, "control did not end in peace"

    async def call(self, verb: str, given: CallArguments) -> Any:
        number = next(self._numbers)
        answer = self._answer_to(number)
        assert self._running.stdin is not None
        with suppress(ConnectionError):
            self._running.stdin.write(f"{json.dumps([number, verb, asdict(given)])}\n".encode())
        said = await answer
        if "error" in said:
            raise EngineRejected(f"{verb}: {said['error']}", transient=said["transient"])
        return said["value"]

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "control was never started"
        return self._process

    def _answer_to(self, number: int) -> asyncio.Future[dict[str, Any]]:
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        if self._reading is not None and self._reading.done() and number:
            answer.set_exception(ControlKilled())
        return answer

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said = json.loads(line)
            self._waiting.pop(said["number"]).set_result({"value": None, **said})
        await process.wait()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ControlKilled())
        self._waiting.clear()

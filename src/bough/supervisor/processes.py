"""One process that the supervisor keeps alive.

It is started with two inherited pipes: through one it says that it is ready or why not, the other
closes when the supervisor dies. It has a session of its own, so Ctrl-C on the terminal reaches the
supervisor alone.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from bough.errors import Unavailable
from bough.supervisor import readiness
from bough.supervisor.memory_limits import CHECK_INTERVAL, MemoryLimit

FIRST_RESTART_DELAY, MAX_RESTART_DELAY = 0.2, 10.0  # before the next start; doubling while it does not get ready
STOP_TIMEOUT = 90.0  # seconds that an orderly stop may take

# What a child handles. Blocked while it starts, so that none is lost before it listens.
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGQUIT})

_spawn_lock = asyncio.Lock()  # two that block signals and give them back would leave them blocked


def bough_command(*arguments: str) -> list[str]:
    """Another process of this program. `-P`: a folder named `bough` where we stand is not it."""
    return [sys.executable, "-P", "-m", "bough.cli.main", *arguments]


def gateway_worker_command(user: str | None) -> list[str]:
    """A worker of the gateway that becomes this user; None: it stays who we are."""
    return [sys.executable, "-P", "-m", "bough.gateway.launch", user or ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """How a child is started; the two pipes are added to its command."""

    name: str
    command: Sequence[str]
    alive_fd: int
    log_file: Path
    inherited_fds: Sequence[int] = ()  # what else it inherits
    environment: Mapping[str, str] | None = None  # None: ours
    memory_limit: MemoryLimit | None = None


class ChildProcess:
    def __init__(self, spec: ProcessSpec) -> None:
        self.name = spec.name
        self.start_count = 0
        self._spec = spec
        self._process: asyncio.subprocess.Process | None = None
        self._kill_reason = ""  # why we ended it, if we did

    @property
    def pid(self) -> int:
        return self._process.pid if self._process and self._process.returncode is None else 0

    async def start(self) -> None:
        """Start it and wait until it is ready; raise its sentence when it cannot."""
        ready, write_end = os.pipe()
        try:
            self._process = await self._spawn(write_end)
        finally:
            os.close(write_end)
        self.start_count += 1
        self._kill_reason = ""
        error = readiness.parse_error(await _line_of(ready))
        if error is not None:
            code = await self._process.wait()
            raise Unavailable(
                error or f"{self._describe_exit(code)} before it was ready; {self._spec.log_file} says more."
            )

    async def keep_alive(self, on_change: Callable[[str], None]) -> None:
        """Start it again whenever it dies; `changed` hears a sentence each time."""
        wait = FIRST_RESTART_DELAY
        while True:
            if self._process is not None:
                on_change(self._describe_exit(await self._wait_within_limits(self._process)))
            await asyncio.sleep(wait)
            try:
                await self.start()
            except Unavailable as error:
                wait = min(wait * 2, MAX_RESTART_DELAY)
                on_change(f"{self.name} could not start: {error.public_message}")
            else:
                wait = FIRST_RESTART_DELAY
                on_change(f"{self.name} runs again")

    async def _wait_within_limits(self, process: asyncio.subprocess.Process) -> int:
        """Its exit status. A process that takes more memory than it may is killed."""
        ended = asyncio.create_task(process.wait())
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=CHECK_INTERVAL)
                why = (
                    self._spec.memory_limit.describe_excess(process.pid)
                    if self._spec.memory_limit and not ended.done()
                    else None
                )
                if why is not None:
                    self._kill_reason = why
                    self.send_signal(signal.SIGKILL)
                    return await ended
            return ended.result()
        finally:
            ended.cancel()

    def send_signal(self, signal_number: signal.Signals) -> None:
        if self.pid and self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal_number)

    async def stop(self, signal_number: signal.Signals, force: asyncio.Event, timeout: float = STOP_TIMEOUT) -> None:
        """Ask it to stop and wait; kill it when there is a hurry or it takes too long."""
        if not self.pid or self._process is None:
            return
        self.send_signal(signal_number)
        ended = asyncio.create_task(self._process.wait())
        hurried = asyncio.create_task(force.wait())
        await asyncio.wait({ended, hurried}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not ended.done():
            self._process.kill()
        await ended

    async def _spawn(self, ready_fd: int) -> asyncio.subprocess.Process:
        launch = self._spec
        pipes = ("--ready-fd", str(ready_fd), "--alive-fd", str(launch.alive_fd))
        log = os.open(launch.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            async with _spawn_lock:
                before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
                try:
                    with launch.memory_limit.limit_new_processes() if launch.memory_limit else nullcontext():
                        return await asyncio.create_subprocess_exec(
                            *launch.command,
                            *pipes,
                            stdin=asyncio.subprocess.DEVNULL,
                            stdout=log,
                            stderr=log,
                            pass_fds=(ready_fd, launch.alive_fd, *launch.inherited_fds),
                            env=launch.environment,
                            start_new_session=True,
                        )
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
        finally:
            os.close(log)

    def _describe_exit(self, code: int) -> str:
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
        return f"{self.name} ended {how}" + (f": {self._kill_reason}" if self._kill_reason else "")


async def _line_of(pipe_fd: int) -> bytes:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe_fd, "rb", 0)
    )
    try:
        return await reader.readline()
    finally:
        transport.close()

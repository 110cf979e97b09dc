"""A child process that the supervisor keeps alive.

A child inherits two pipes: through one it reports that it is ready or why it is not; the other closes when the
supervisor dies. Each child has its own session, so Ctrl-C on the terminal reaches only the supervisor.
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

FIRST_RESTART_DELAY, MAX_RESTART_DELAY = 0.2, 10.0  # seconds; the delay doubles while the child does not get ready
STOP_TIMEOUT = 90.0  # seconds that an orderly stop may take

# Signals that children handle. They are blocked during the start, so that none arrives before the handler exists.
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGQUIT})

_spawn_lock = asyncio.Lock()  # two concurrent spawns that save and restore the signal mask would leave it blocked


def bough_command(*arguments: str) -> list[str]:
    """Return a command line of this program.

    `-P` keeps Python from importing a folder `bough` in the working directory.
    """
    return [sys.executable, "-P", "-m", "bough.cli.main", *arguments]


def gateway_worker_command(user: str | None) -> list[str]:
    """Return a gateway worker that switches to this user; None keeps the current one."""
    return [sys.executable, "-P", "-m", "bough.gateway.launch", user or ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """How to start a child; the arguments for the two pipes are appended to its command."""

    name: str
    command: Sequence[str]
    alive_fd: int
    log_file: Path
    inherited_fds: Sequence[int] = ()  # in addition to the pipes
    environment: Mapping[str, str] | None = None  # None: inherit ours
    memory_limit: MemoryLimit | None = None


class ChildProcess:
    def __init__(self, spec: ProcessSpec) -> None:
        self.name = spec.name
        self.start_count = 0
        self._spec = spec
        self._process: asyncio.subprocess.Process | None = None
        self._kill_reason = ""  # why we killed the process, if we did

    @property
    def pid(self) -> int:
        return self._process.pid if self._process and self._process.returncode is None else 0

    async def start(self) -> None:
        """Start the process and wait until it is ready; raise the error that it reports."""
        ready, write_end = os.pipe()
        try:
            self._process = await self._spawn(write_end)
        finally:
            os.close(write_end)
        self.start_count += 1
        self._kill_reason = ""
        error = readiness.parse_error(await _read_line(ready))
        if error is not None:
            status = await self._process.wait()
            raise Unavailable(error or f"{self._describe_exit(status)} before it was ready; see {self._spec.log_file}.")

    async def keep_alive(self, on_change: Callable[[str], None]) -> None:
        """Restart the process whenever it dies; call `on_change` with a message each time."""
        delay = FIRST_RESTART_DELAY
        while True:
            if self._process is not None:
                on_change(self._describe_exit(await self._wait_within_limits(self._process)))
            await asyncio.sleep(delay)
            try:
                await self.start()
            except Unavailable as error:
                delay = min(delay * 2, MAX_RESTART_DELAY)
                on_change(f"{self.name} could not start: {error.public_message}")
            else:
                delay = FIRST_RESTART_DELAY
                on_change(f"{self.name} runs again")

    async def _wait_within_limits(self, process: asyncio.subprocess.Process) -> int:
        """Return the exit status. Kill the process when it exceeds its memory limit."""
        exited = asyncio.create_task(process.wait())
        try:
            while not exited.done():
                await asyncio.wait({exited}, timeout=CHECK_INTERVAL)
                limit = self._spec.memory_limit
                excess = limit.describe_excess(process.pid) if limit and not exited.done() else None
                if excess is not None:
                    self._kill_reason = excess
                    self.send_signal(signal.SIGKILL)
                    return await exited
            return exited.result()
        finally:
            exited.cancel()

    def send_signal(self, signal_number: signal.Signals) -> None:
        if self.pid and self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal_number)

    async def stop(self, signal_number: signal.Signals, force: asyncio.Event, timeout: float = STOP_TIMEOUT) -> None:
        """Send the signal and wait; kill the process when `force` is set or the timeout passes."""
        if not self.pid or self._process is None:
            return
        self.send_signal(signal_number)
        exited = asyncio.create_task(self._process.wait())
        forced = asyncio.create_task(force.wait())
        await asyncio.wait({exited, forced}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        forced.cancel()
        if not exited.done():
            self._process.kill()
        await exited

    async def _spawn(self, ready_fd: int) -> asyncio.subprocess.Process:
        spec = self._spec
        pipes = ("--ready-fd", str(ready_fd), "--alive-fd", str(spec.alive_fd))
        log = os.open(spec.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            async with _spawn_lock:
                mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
                try:
                    with spec.memory_limit.limit_new_processes() if spec.memory_limit else nullcontext():
                        return await asyncio.create_subprocess_exec(
                            *spec.command,
                            *pipes,
                            stdin=asyncio.subprocess.DEVNULL,
                            stdout=log,
                            stderr=log,
                            pass_fds=(ready_fd, spec.alive_fd, *spec.inherited_fds),
                            env=spec.environment,
                            start_new_session=True,
                        )
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        finally:
            os.close(log)

    def _describe_exit(self, status: int) -> str:
        how = f"by signal {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
        return f"{self.name} ended {how}" + (f": {self._kill_reason}" if self._kill_reason else "")


async def _read_line(pipe_fd: int) -> bytes:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe_fd, "rb", 0)
    )
    try:
        return await reader.readline()
    finally:
        transport.close()

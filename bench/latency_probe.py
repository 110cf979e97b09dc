"""How long a server makes its clients wait: continuous statements with their latencies.

A probe is a separate process, so that other work of the bench is not measured. It queries a random row, pauses, and
repeats until its input is closed; then it prints the start and duration of each statement. All processes share one
clock.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engine_home import connect
from bench.pgbench import ServerTarget
from bench.promise import percentile

PAUSE_SECONDS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRows:
    """A table to query: one statement reads a row by its number, one writes it."""

    count: int
    read: str
    write: str


class Probe:
    """Starts querying when it is created."""

    def __init__(self, target: ServerTarget, statement: str, count: int) -> None:
        words = [str(target.sockets), target.role, target.database, statement, str(count)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.latency_probe", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            start_new_session=True,  # the bench handles Ctrl-C and stops the probe
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "asking\n":
            self.stop()
            raise RuntimeError(f"the probe {statement!r} did not start")

    def stop(self) -> "Latencies":
        try:
            output, _ = self._process.communicate(timeout=60)
        finally:
            self._process.kill()
        return Latencies(json.loads(output) if output else [])


@dataclass(frozen=True, slots=True)
class Latencies:
    statements: list[tuple[float, float]]  # start and duration of each statement, in seconds

    def longest(self, begin: float, end: float) -> float:
        """Return the longest latency, in milliseconds, of the statements that overlap the interval."""
        return max(self._between(begin, end), default=0) * 1e3

    def p99(self, begin: float, end: float) -> float:
        """Return the 99th percentile in milliseconds."""
        return percentile(self._between(begin, end), 0.99) * 1e3

    def _between(self, begin: float, end: float) -> list[float]:
        return [
            duration for started_at, duration in self.statements if started_at < end and started_at + duration > begin
        ]


@dataclass(frozen=True, slots=True)
class Probes:
    """A concurrent reader and writer."""

    reader: Probe
    writer: Probe

    @classmethod
    def start(cls, target: ServerTarget, rows: ProbeRows) -> "Probes":
        reader = Probe(target, rows.read, rows.count)
        try:
            return cls(reader, Probe(target, rows.write, rows.count))
        except BaseException:
            reader.stop()
            raise

    def stop(self) -> tuple[Latencies, Latencies]:
        try:
            reads = self.reader.stop()
        finally:
            writes = self.writer.stop()
        return reads, writes


async def _probe(session: Any, statement: str, count: int) -> list[tuple[float, float]]:
    prepared = await session.prepare(statement)
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(sys.stdin, over.set)
    await prepared.fetch(1)
    print("asking", flush=True)
    samples: list[tuple[float, float]] = []
    while not over.is_set():
        number = random.randint(1, count)
        started_at = time.perf_counter()
        await prepared.fetch(number)
        samples.append((started_at, time.perf_counter() - started_at))
        await asyncio.sleep(PAUSE_SECONDS)
    return samples


async def _main(sockets: str, role: str, database: str, statement: str, count: str) -> None:
    async with connect(ServerTarget(Path(sockets), role, database)) as session:
        print(json.dumps(await _probe(session, statement, int(count))))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        asyncio.run(_main(*sys.argv[1:]))

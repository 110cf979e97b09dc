"""How long a server keeps its clients waiting: statements without end, each with its latency.

A probe is a process of its own, `python -m bench.stalls …`, because whatever else runs in ours would
be measured with it. It asks about a row at random, pauses, and asks again until its input is closed;
then it tells when each statement began and how long it took. All processes have the same clock.
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
from bench.pgbench import Target
from bench.promise import percentile

PAUSE_SECONDS = 0.001  # seconds; the machine has other things to do


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRows:
    """A table of the server to ask about: one statement reads a row by its number, one writes it."""

    count: int
    read: str
    write: str


class Probe:
    """Asks from the moment it was made."""

    def __init__(self, target: Target, statement: str, count: int) -> None:
        words = [str(target.sockets), target.role, target.database, statement, str(count)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.latency_probe", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            start_new_session=True,  # a Ctrl-C is ours: we end it
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "asking\n":
            self.stop()
            raise RuntimeError(f"the probe {statement!r} did not begin")

    def stop(self) -> "Latencies":
        try:
            told, _ = self._process.communicate(timeout=60)
        finally:
            self._process.kill()
        return Latencies(json.loads(told) if told else [])


@dataclass(frozen=True, slots=True)
class Latencies:
    statements: list[tuple[float, float]]  # when each began, and how long it took, in seconds

    def longest(self, begin: float, end: float) -> float:
        """Milliseconds, of the statements that were under way between two moments."""
        return max(self._between(begin, end), default=0) * 1e3

    def p99(self, begin: float, end: float) -> float:
        """Milliseconds that 99 in a hundred of them did not exceed."""
        return percentile(self._between(begin, end), 0.99) * 1e3

    def _between(self, begin: float, end: float) -> list[float]:
        return [took for began, took in self.statements if began < end and began + took > begin]


@dataclass(frozen=True, slots=True)
class Probes:
    """A reader and a writer beside one another."""

    reader: Probe
    writer: Probe

    @classmethod
    def start(cls, target: Target, rows: ProbeRows) -> "Probes":
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
    seen: list[tuple[float, float]] = []
    while not over.is_set():
        number = random.randint(1, count)
        began = time.perf_counter()
        await prepared.fetch(number)
        seen.append((began, time.perf_counter() - began))
        await asyncio.sleep(PAUSE_SECONDS)
    return seen


async def _main(sockets: str, role: str, database: str, statement: str, count: str) -> None:
    async with connect(Target(Path(sockets), role, database)) as session:
        print(json.dumps(await _probe(session, statement, int(count))))


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        asyncio.run(_main(*sys.argv[1:]))

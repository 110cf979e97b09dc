"""Many computes on one machine: what each takes of its memory, and whether the next one starts as fast.

Every compute is a project of its own with default settings, and has answered one session. Its memory
is the proportional share (Pss) of all its processes; what the machine has less of is seen in
MemAvailable, which also knows what the kernel keeps for them.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench import homes, machine, places
from bench.homes import Compute, Home
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note
from bench.sizes import Sizes
from bough.engine.local.computes.postmaster import PidFile

DRIVER = "reflink"
FEWEST = 5  # computes, for what each takes of the machine's memory
SLOWER_LIMIT = 1.5  # how many times as long the next one may take to start


@dataclass(slots=True)
class Seen:
    """While more and more computes run."""

    place: str  # on what their volumes are
    available: float  # bytes, before the first
    starts: dict[int, list[float]] = field(default_factory=dict)  # computes that run → milliseconds of the next one
    shares: dict[int, list[float]] = field(default_factory=dict)  # computes that run → MB of each
    less: dict[int, float] = field(default_factory=dict)  # computes that run → MB that the machine has less


def measure(sizes: Sizes) -> Iterator[Promise]:
    places.check((DRIVER,), 4 + 0.05 * sizes.computes[-1])
    yield _promise(sizes, asyncio.run(_measure(sizes)))


async def _measure(sizes: Sizes) -> Seen:
    async with homes.opened(DRIVER, 8 + sizes.computes[-1] // 10) as home:
        extra = await home.compute()
        await extra.run()
        await extra.suspend()
        seen = Seen(home.place.description, machine.memory()["MemAvailable"])
        seen.starts[0] = await _starts(extra)
        running: list[Compute] = []
        for level in sizes.computes:
            note(f"up to {level} computes")
            await _grow(home, running, level, seen)
            seen.shares[level] = [machine.memory_of(_postmaster(each)) / 1024**2 for each in running]
            seen.starts[level] = await _starts(extra)
    return seen


async def _grow(home: Home, running: list[Compute], level: int, seen: Seen) -> None:
    while len(running) < level:
        compute = await home.compute()
        await compute.run()
        running.append(compute)
        if len(running) >= FEWEST:
            seen.less[len(running)] = (seen.available - machine.memory()["MemAvailable"]) / 1024**2


async def _starts(compute: Compute) -> list[float]:
    """Milliseconds of each start of a compute that sleeps."""
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await compute.run()
        took.append((time.perf_counter() - began) * 1e3)
        await compute.suspend()
    return took


def _postmaster(compute: Compute) -> int:
    file = PidFile.read(compute.data)
    if file is None:
        raise RuntimeError(f"the compute on {compute.data} ended")
    return file.pid


def _promise(sizes: Sizes, seen: Seen) -> Promise:
    starts = {
        count: Figure(name=f"start of one more beside {count}", unit="ms", samples=tuple(samples))
        for count, samples in seen.starts.items()
    }
    each = tuple(less / count for count, less in seen.less.items())
    available = seen.available / 1024**2
    return Promise(
        name="density",
        sentence=f"A compute starts as fast beside {sizes.computes[-1]} others as alone.",
        figures=(
            *(
                Figure(name=f"memory of each of {count} (Pss)", unit="MB", samples=tuple(samples))
                for count, samples in seen.shares.items()
            ),
            Figure(
                name=f"what the machine has less, each of {FEWEST} to {sizes.computes[-1]}", unit="MB", samples=each
            ),
            Figure(name="computes that this machine holds", unit="", samples=tuple(available / one for one in each)),
            *starts.values(),
        ),
        ratios=tuple(
            ratio(f"start beside {count} to alone", starts[count], starts[0], below=SLOWER_LIMIT)
            for count in sizes.computes
        ),
        how=(
            f"one project each, default settings; a start is ensure_running of one that sleeps, {ROUNDS} times",
            f"the machine holds MemAvailable before the first ({available:,.0f} MB) over what each takes of it",
            seen.place,
        ),
        baseline=("the start of the same compute before any other ran",),
    )

"""Many computes on one machine: what each takes of its memory, and whether the next one starts as fast.

Every compute is a project of its own with default settings, and has answered one session. Its memory
is the proportional share (Pss) of all its processes; what the machine has less of is seen in
MemAvailable, which also knows what the kernel keeps for them.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench import engine_home, machine, storage
from bench.engine_home import Compute, Home
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note
from bench.sizes import Sizes
from bough.engine.local.computes.postmaster import PidFile

DRIVER = "reflink"
MIN_COMPUTES = 5  # computes, for what each takes of the machine's memory
SLOWER_LIMIT = 1.5  # how many times as long the next one may take to start


@dataclass(slots=True)
class DensitySamples:
    """While more and more computes run."""

    storage_description: str  # on what their volumes are
    available_bytes: float  # bytes, before the first
    start_times: dict[int, list[float]] = field(
        default_factory=dict
    )  # computes that run → milliseconds of the next one
    compute_mb: dict[int, list[float]] = field(default_factory=dict)  # computes that run → MB of each
    machine_mb: dict[int, float] = field(default_factory=dict)  # computes that run → MB that the machine has less


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements((DRIVER,), 4 + 0.05 * sizes.computes[-1])
    yield _promise(sizes, asyncio.run(_measure(sizes)))


async def _measure(sizes: Sizes) -> DensitySamples:
    async with engine_home.open_home(DRIVER, 8 + sizes.computes[-1] // 10) as home:
        extra = await home.create_compute()
        await extra.start()
        await extra.suspend()
        seen = DensitySamples(home.storage_home.description, machine.read_meminfo()["MemAvailable"])
        seen.start_times[0] = await _starts(extra)
        running: list[Compute] = []
        for level in sizes.computes:
            print_note(f"up to {level} computes")
            await _grow(home, running, level, seen)
            seen.compute_mb[level] = [machine.pss_of_tree(_postmaster(each)) / 1024**2 for each in running]
            seen.start_times[level] = await _starts(extra)
    return seen


async def _grow(home: Home, running: list[Compute], level: int, seen: DensitySamples) -> None:
    while len(running) < level:
        compute = await home.create_compute()
        await compute.start()
        running.append(compute)
        if len(running) >= MIN_COMPUTES:
            seen.machine_mb[len(running)] = (seen.available_bytes - machine.read_meminfo()["MemAvailable"]) / 1024**2


async def _starts(compute: Compute) -> list[float]:
    """Milliseconds of each start of a compute that sleeps."""
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await compute.start()
        took.append((time.perf_counter() - began) * 1e3)
        await compute.suspend()
    return took


def _postmaster(compute: Compute) -> int:
    file = PidFile.read(compute.data_folder)
    if file is None:
        raise RuntimeError(f"the compute on {compute.data_folder} ended")
    return file.pid


def _promise(sizes: Sizes, seen: DensitySamples) -> Promise:
    starts = {
        count: Measurement(name=f"start of one more beside {count}", unit="ms", samples=tuple(samples))
        for count, samples in seen.start_times.items()
    }
    each = tuple(less / count for count, less in seen.machine_mb.items())
    available = seen.available_bytes / 1024**2
    return Promise(
        name="density",
        sentence=f"A compute starts as fast beside {sizes.computes[-1]} others as alone.",
        measurements=(
            *(
                Measurement(name=f"memory of each of {count} (Pss)", unit="MB", samples=tuple(samples))
                for count, samples in seen.compute_mb.items()
            ),
            Measurement(
                name=f"what the machine has less, each of {MIN_COMPUTES} to {sizes.computes[-1]}",
                unit="MB",
                samples=each,
            ),
            Measurement(
                name="computes that this machine holds", unit="", samples=tuple(available / one for one in each)
            ),
            *starts.values(),
        ),
        ratios=tuple(
            make_ratio(f"start beside {count} to alone", starts[count], starts[0], below=SLOWER_LIMIT)
            for count in sizes.computes
        ),
        how=(
            f"one project each, default settings; a start is ensure_running of one that sleeps, {ROUNDS} times",
            f"the machine holds MemAvailable before the first ({available:,.0f} MB) over what each takes of it",
            seen.storage_description,
        ),
        baseline=("the start of the same compute before any other ran",),
    )

"""Many computes on one machine: the memory of each, and the start time of one more.

Every compute belongs to its own project with default settings and has served one session. Its memory is the
proportional share (Pss) of its processes; the reduction of free memory is read from MemAvailable, which includes
memory of the kernel.
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
from bough.engine.local.computes.pid_file import PidFile

DRIVER = "reflink"
MIN_COMPUTES = 5  # computes from which on memory per compute is computed
SLOWER_LIMIT = 1.5  # limit for the start of the next one, to alone


@dataclass(slots=True)
class DensitySamples:
    """Samples while the number of computes grows."""

    storage_description: str  # the file system of their volumes
    available_bytes: float  # bytes, before the first compute
    # Running computes → milliseconds of the next start.
    start_times: dict[int, list[float]] = field(default_factory=dict)
    compute_mb: dict[int, list[float]] = field(default_factory=dict)  # running computes → MB of each
    machine_mb: dict[int, float] = field(default_factory=dict)  # running computes → MB less free memory


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements((DRIVER,), 4 + 0.05 * sizes.computes[-1])
    yield _build_promise(sizes, asyncio.run(_measure(sizes)))


async def _measure(sizes: Sizes) -> DensitySamples:
    async with engine_home.open_home(DRIVER, 8 + sizes.computes[-1] // 10) as home:
        extra = await home.create_compute()
        await extra.start()
        await extra.suspend()
        samples = DensitySamples(home.storage_home.description, machine.read_meminfo()["MemAvailable"])
        samples.start_times[0] = await _measure_starts(extra)
        running: list[Compute] = []
        for level in sizes.computes:
            print_note(f"up to {level} computes")
            await _grow(home, running, level, samples)
            samples.compute_mb[level] = [machine.pss_of_tree(_postmaster(each)) / 1024**2 for each in running]
            samples.start_times[level] = await _measure_starts(extra)
    return samples


async def _grow(home: Home, running: list[Compute], level: int, samples: DensitySamples) -> None:
    while len(running) < level:
        compute = await home.create_compute()
        await compute.start()
        running.append(compute)
        if len(running) >= MIN_COMPUTES:
            samples.machine_mb[len(running)] = (
                samples.available_bytes - machine.read_meminfo()["MemAvailable"]
            ) / 1024**2


async def _measure_starts(compute: Compute) -> list[float]:
    """Return milliseconds of each start of a suspended compute."""
    durations = []
    for _ in range(ROUNDS):
        started_at = time.perf_counter()
        await compute.start()
        durations.append((time.perf_counter() - started_at) * 1e3)
        await compute.suspend()
    return durations


def _postmaster(compute: Compute) -> int:
    file = PidFile.read(compute.data_folder)
    if file is None:
        raise RuntimeError(f"the compute on {compute.data_folder} ended")
    return file.pid


def _build_promise(sizes: Sizes, samples: DensitySamples) -> Promise:
    starts = {
        count: Measurement(name=f"start of one more beside {count}", unit="ms", samples=tuple(values))
        for count, values in samples.start_times.items()
    }
    each = tuple(less / count for count, less in samples.machine_mb.items())
    available = samples.available_bytes / 1024**2
    return Promise(
        name="density",
        sentence=f"A compute starts as fast with {sizes.computes[-1]} other running computes as alone.",
        measurements=(
            *(
                Measurement(name=f"memory of each of {count} (Pss)", unit="MB", samples=tuple(values))
                for count, values in samples.compute_mb.items()
            ),
            Measurement(
                name=f"reduction of free memory per compute, {MIN_COMPUTES} to {sizes.computes[-1]}",
                unit="MB",
                samples=each,
            ),
            Measurement(
                name="computes that fit on this machine", unit="", samples=tuple(available / one for one in each)
            ),
            *starts.values(),
        ),
        ratios=tuple(
            make_ratio(f"start beside {count} to alone", starts[count], starts[0], below=SLOWER_LIMIT)
            for count in sizes.computes
        ),
        how=(
            f"one project each, default settings; a start is ensure_running of a suspended compute, {ROUNDS} times",
            f"capacity: MemAvailable before the first ({available:,.0f} MB) divided by its reduction per compute",
            samples.storage_description,
        ),
        baseline=("the start of the same compute before any other was running",),
    )

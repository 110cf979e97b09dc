"""What statement statistics cost a busy database: TPC-B with pg_stat_statements, as every compute has it, and without.

The limit is narrower than the difference between two runs of the same compute, so two computes of each kind are loaded
at the same time and compete for the same machine. Each run starts after a vacuum and a checkpoint. The CPU time per
transaction depends less on what else the machine does.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bench import engine_home, pgbench, storage
from bench.engine_home import SETTINGS, Compute, Home
from bench.pgbench import TPC_B
from bench.plain_postgres import MAJOR
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import print_note, rotate_rounds
from bench.sizes import Sizes
from bough.postgres import postgresql_conf, preload_libraries

LIMIT = 0.97  # of the throughput without
DRIVER = "plain"
ON, OFF = "with statement statistics", "without"
_ORDER = (ON, OFF, OFF, ON)  # in which the computes are created, because the first one may get a better place on disk
_ROUNDS = 9
_IMAGE_GB = 10
_CPU = "CPU time per transaction"
_WITHOUT = {
    name: value
    for name, value in preload_libraries.restrict(SETTINGS, ()).items()
    if not name.startswith(preload_libraries.STATEMENT_STATISTICS)
}


@dataclass(slots=True)
class LoadedCompute:
    """A compute with or without statistics, and what was measured in each round."""

    compute: Compute
    mode: str
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def run(self, seconds: int) -> None:
        before = await self._read_cpu_seconds()
        tps = await asyncio.to_thread(pgbench.measure_tps, self.compute.target, TPC_B, seconds)
        self.samples[TPC_B].append(tps)
        self.samples[_CPU].append((await self._read_cpu_seconds() - before) * 1e6 / (tps * seconds))

    async def _read_cpu_seconds(self) -> float:
        load = await self.compute.home.engine.read_load(self.compute.spec.endpoint_id)
        assert load is not None
        return load.cpu_seconds


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements((DRIVER,), _IMAGE_GB)
    yield asyncio.run(_measure(sizes))


async def _measure(sizes: Sizes) -> Promise:
    async with AsyncExitStack() as stack:
        home = await stack.enter_async_context(engine_home.open_home(DRIVER, _IMAGE_GB, thin=False))
        measured = [await _create_filled_compute(home, mode, sizes) for mode in _ORDER]
        for ordered in rotate_rounds(measured, _ROUNDS):
            for loaded in ordered:
                await loaded.compute.quiesce()
            await asyncio.gather(*(loaded.run(sizes.pgbench_seconds) for loaded in ordered))
        return _build_promise(measured, sizes)


async def _create_filled_compute(home: Home, mode: str, sizes: Sizes) -> LoadedCompute:
    print_note(f"filling a compute {mode}")
    compute = await home.create_compute()
    await compute.start(SETTINGS if mode == ON else _WITHOUT)
    pgbench.initialize(compute.target, sizes.pgbench_scale)
    return LoadedCompute(compute, mode)


def _make_measurement(measured: Sequence[LoadedCompute], what: str, mode: str, unit: str) -> Measurement:
    """Return the mean of the computes of this kind, round by round."""
    rounds = zip(*(loaded.samples[what] for loaded in measured if loaded.mode == mode), strict=True)
    return Measurement(name=f"{what} {mode}", unit=unit, samples=tuple(sum(each) / len(each) for each in rounds))


def _build_promise(measured: Sequence[LoadedCompute], sizes: Sizes) -> Promise:
    on, off = (_make_measurement(measured, TPC_B, mode, "tps") for mode in (ON, OFF))
    cpu_on, cpu_off = (_make_measurement(measured, _CPU, mode, "us") for mode in (ON, OFF))
    return Promise(
        name="statements",
        sentence=f"A busy database that counts its statements has more than {LIMIT:g} of its throughput without.",
        measurements=(on, off, cpu_on, cpu_off),
        ratios=(
            make_ratio(f"{TPC_B}: with to without", on, off, above=LIMIT),
            make_ratio(f"{_CPU}: with to without", cpu_on, cpu_off),
        ),
        how=(
            f"{' '.join(pgbench.make_command(TPC_B, sizes.pgbench_seconds))} --host SOCKETS; scale "
            f"{sizes.pgbench_scale}; {_ROUNDS} rounds of four computes at the same time, two of each kind; vacuum, "
            "checkpoint and sync before each round",
        ),
        baseline=(
            "the same computes without shared_preload_libraries",
            "settings of both: " + ", ".join(postgresql_conf.render(_WITHOUT, major=MAJOR).splitlines()),
        ),
    )

"""What statement statistics cost a busy database: TPC-B with pg_stat_statements, as every compute has it, and without.

pgbench loads both computes at the same time, so that they compete for the same machine: the limit is narrower than the
difference between two runs of one compute. Each run starts after a vacuum and a checkpoint.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bench import engine_home, pgbench, storage
from bench.engine_home import SETTINGS, Compute, Home
from bench.pgbench import SELECT_ONLY, TPC_B
from bench.plain_postgres import MAJOR
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import print_note, rotate_rounds
from bench.sizes import Sizes
from bough.postgres import postgresql_conf, preload_libraries

LIMIT = 0.97  # of the throughput without
DRIVER = "plain"
ON, OFF = "with statement statistics", "without"
_ROUNDS = 9
_IMAGE_GB = 8
_WITHOUT = {
    name: value
    for name, value in preload_libraries.restrict(SETTINGS, ()).items()
    if not name.startswith(preload_libraries.STATEMENT_STATISTICS)
}


@dataclass(slots=True)
class LoadedCompute:
    """A compute with or without statistics, and its transactions per second by script."""

    compute: Compute
    mode: str
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def run(self, script: str, seconds: int) -> None:
        tps = await asyncio.to_thread(pgbench.measure_tps, self.compute.target, script, seconds)
        self.samples[script].append(tps)

    def make_measurement(self, script: str) -> Measurement:
        return Measurement(name=f"{script} {self.mode}", unit="tps", samples=tuple(self.samples[script]))


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements((DRIVER,), _IMAGE_GB)
    yield asyncio.run(_measure(sizes))


async def _measure(sizes: Sizes) -> Promise:
    async with AsyncExitStack() as stack:
        home = await stack.enter_async_context(engine_home.open_home(DRIVER, _IMAGE_GB, thin=False))
        measured = [await _create_filled_compute(home, mode, sizes) for mode in (ON, OFF)]
        for ordered in rotate_rounds(measured, _ROUNDS):
            for script in (TPC_B, SELECT_ONLY):
                for loaded in ordered:
                    await loaded.compute.quiesce()
                await asyncio.gather(*(loaded.run(script, sizes.pgbench_seconds) for loaded in ordered))
        return _build_promise(measured, sizes)


async def _create_filled_compute(home: Home, mode: str, sizes: Sizes) -> LoadedCompute:
    print_note(f"filling the compute {mode}")
    compute = await home.create_compute()
    await compute.start(SETTINGS if mode == ON else _WITHOUT)
    pgbench.initialize(compute.target, sizes.pgbench_scale)
    return LoadedCompute(compute, mode)


def _build_promise(measured: list[LoadedCompute], sizes: Sizes) -> Promise:
    on, off = (loaded.make_measurement(TPC_B) for loaded in measured)
    reading_on, reading_off = (loaded.make_measurement(SELECT_ONLY) for loaded in measured)
    return Promise(
        name="statements",
        sentence=f"A busy database that counts its statements has more than {LIMIT:g} of its throughput without.",
        measurements=(on, off, reading_on, reading_off),
        ratios=(
            make_ratio(f"{TPC_B}: with to without", on, off, above=LIMIT),
            make_ratio(f"{SELECT_ONLY}: with to without", reading_on, reading_off),
        ),
        how=(
            f"{' '.join(pgbench.make_command(TPC_B, sizes.pgbench_seconds))} --host SOCKETS; scale "
            f"{sizes.pgbench_scale}; {_ROUNDS} rounds of both computes at the same time; vacuum, checkpoint and sync "
            f"before each; then {SELECT_ONLY}",
        ),
        baseline=(
            "the same compute without shared_preload_libraries",
            "settings of both: " + ", ".join(postgresql_conf.render(_WITHOUT, major=MAJOR).splitlines()),
        ),
    )

"""The throughput of a busy database on each file system, compared with the machine's own.

The same compute with the same settings on every driver; pgbench loads one at a time, the others are idle. Each run
starts after a vacuum and a checkpoint. A third run follows a clone of the parent: blocks are shared then, and the first
write to each has to move it.
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
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bench.storage import DRIVERS
from bough.postgres import postgresql_conf

BASELINE = "plain"
TPC_B_AFTER_CLONE, TPC_B_LOAD, SELECT_LOAD = "TPC-B after a clone", "TPC-B", "select-only"
_SCRIPTS = {TPC_B_LOAD: TPC_B, SELECT_LOAD: SELECT_ONLY, TPC_B_AFTER_CLONE: TPC_B}


@dataclass(slots=True)
class DriverCompute:
    """A compute on one driver, and its transactions per second by kind of load."""

    home: Home
    compute: Compute
    seconds: int
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def run_round(self) -> None:
        for what in (TPC_B_LOAD, SELECT_LOAD, TPC_B_AFTER_CLONE):
            await self.compute.quiesce()
            child = await self.home.create_child(self.compute) if what == TPC_B_AFTER_CLONE else None
            self.samples[what].append(pgbench.measure_tps(self.compute.target, _SCRIPTS[what], self.seconds))
            if child:
                await child.delete()

    def make_measurement(self, what: str) -> Measurement:
        return Measurement(name=f"{what} on {self.home.driver}", unit="tps", samples=tuple(self.samples[what]))


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements(DRIVERS, len(DRIVERS) * _image_gb(sizes))
    yield _build_promise(sizes, asyncio.run(_measure(sizes)))


async def _measure(sizes: Sizes) -> dict[str, DriverCompute]:
    async with AsyncExitStack() as stack:
        measured = [await _create_filled_compute(stack, driver, sizes) for driver in DRIVERS]
        for ordered in rotate_rounds(measured):
            for loaded in ordered:
                await loaded.run_round()
    return {loaded.home.driver: loaded for loaded in measured}


async def _create_filled_compute(stack: AsyncExitStack, driver: str, sizes: Sizes) -> DriverCompute:
    print_note(f"filling the compute on {driver}")
    home = await stack.enter_async_context(engine_home.open_home(driver, _image_gb(sizes), thin=False))
    compute = await home.create_compute()
    await compute.start()
    pgbench.initialize(compute.target, sizes.pgbench_scale)
    return DriverCompute(home, compute, sizes.pgbench_seconds)


def _image_gb(sizes: Sizes) -> int:
    """Include space for WAL between two checkpoints, and for blocks that are rewritten after a clone."""
    return 5 + sizes.pgbench_scale // 20


def _build_promise(sizes: Sizes, measured: dict[str, DriverCompute]) -> Promise:
    native = storage.native_file_system()
    others = [driver for driver in measured if driver != BASELINE]
    return Promise(
        name="throughput",
        sentence=f"Transactions per second of a busy database on each file system, compared with {native}.",
        measurements=tuple(loaded.make_measurement(what) for what in _SCRIPTS for loaded in measured.values()),
        ratios=(
            *(
                make_ratio(
                    f"{what} on {driver} to {native}",
                    measured[driver].make_measurement(what),
                    measured[BASELINE].make_measurement(what),
                )
                for what in (TPC_B_LOAD, SELECT_LOAD)
                for driver in others
            ),
            *(
                make_ratio(
                    f"{driver}: TPC-B after a clone to TPC-B",
                    measured[driver].make_measurement(TPC_B_AFTER_CLONE),
                    measured[driver].make_measurement(TPC_B_LOAD),
                )
                for driver in measured
            ),
        ),
        how=_how(sizes, [measured[driver] for driver in others]),
        baseline=(
            f"the same on a compute whose volume is on {native}: {measured[BASELINE].home.storage_home.description}",
            "settings of all: " + ", ".join(postgresql_conf.render(SETTINGS, major=MAJOR).splitlines()),
        ),
    )


def _how(sizes: Sizes, others: list[DriverCompute]) -> tuple[str, ...]:
    lines = [" ".join(pgbench.make_command(script, sizes.pgbench_seconds)) for script in (TPC_B, SELECT_ONLY)]
    return (
        *(f"{line} --host SOCKETS" for line in lines),
        f"scale {sizes.pgbench_scale}; {ROUNDS} rounds over all drivers; vacuum, checkpoint and sync before each run",
        *(loaded.home.storage_home.description for loaded in others),
    )

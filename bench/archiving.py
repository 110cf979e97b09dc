"""What WAL archiving costs a busy database, and how much disk space an hour of its history takes.

Each driver has the same compute twice, with and without archiving. pgbench loads one at a time; the others are idle.
Each run starts after a vacuum and a checkpoint. The size of an hour is extrapolated from the WAL that was archived
during a steady load.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import engine_home, pgbench, storage
from bench.engine_home import SETTINGS, Compute, Home
from bench.pgbench import TPC_B
from bench.plain_postgres import MAJOR
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bough.postgres import postgresql_conf

LIMIT = 0.9  # of the throughput without archiving
DRIVERS = ("plain", "reflink")
ON, OFF = "with archiving", "without"
RATE = 50  # transactions per second of the steady load
_HOUR = 3600
_BLOCK = 512  # the unit of st_blocks


@dataclass(slots=True)
class ArchivingCompute:
    """A compute with or without archiving, and its transactions per second."""

    home: Home
    compute: Compute
    mode: str
    samples: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def archive(self) -> Path:
        return self.compute.volume_folder / "archive"

    async def run_round(self, seconds: int) -> None:
        await self.compute.quiesce()
        self.samples[TPC_B].append(pgbench.measure_tps(self.compute.target, TPC_B, seconds))

    async def measure_history(self, seconds: int) -> None:
        """Measure the megabytes of archived WAL per hour."""
        await self.compute.quiesce()
        before = await self._archived()
        pgbench.run_at_rate(self.compute.target, TPC_B, seconds, RATE)
        grown = await self._archived() - before
        self.samples["history"].append(grown * _HOUR / seconds / 1024**2)

    async def _archived(self) -> int:
        """Return the size of the archive in bytes, after everything written was archived."""
        await self.compute.execute_as_admin("select pg_switch_wal()", "checkpoint")
        self._wait_until_archived()
        return sum(file.stat().st_blocks * _BLOCK for file in self.archive.iterdir())

    def _wait_until_archived(self) -> None:
        while any((self.compute.data_folder / "pg_wal" / "archive_status").glob("*.ready")):
            time.sleep(0.05)

    def make_measurement(self, what: str, unit: str) -> Measurement:
        return Measurement(
            name=f"{what} {self.mode} on {self.home.driver}", unit=unit, samples=tuple(self.samples[what])
        )


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements(DRIVERS, len(DRIVERS) * 2 * _image_gb(sizes))
    for driver in DRIVERS:
        yield asyncio.run(_measure(driver, sizes))


async def _measure(driver: str, sizes: Sizes) -> Promise:
    async with AsyncExitStack() as stack:
        home = await stack.enter_async_context(engine_home.open_home(driver, _image_gb(sizes), thin=False))
        measured = [await _create_filled_compute(home, mode, sizes) for mode in (ON, OFF)]
        for ordered in rotate_rounds(measured):
            for loaded in ordered:
                await loaded.run_round(sizes.pgbench_seconds)
        for _ in range(ROUNDS):
            await measured[0].measure_history(sizes.history_seconds)
        return _build_promise(driver, measured, sizes)


async def _create_filled_compute(home: Home, mode: str, sizes: Sizes) -> ArchivingCompute:
    print_note(f"filling the compute {mode} on {home.driver}")
    compute = await home.create_compute()
    await compute.start(SETTINGS if mode == ON else {**SETTINGS, "archive_mode": "off"})
    pgbench.initialize(compute.target, sizes.pgbench_scale)
    return ArchivingCompute(home, compute, mode)


def _image_gb(sizes: Sizes) -> int:
    return 8 + sizes.pgbench_scale // 10


def _build_promise(driver: str, measured: list[ArchivingCompute], sizes: Sizes) -> Promise:
    on, off = (loaded.make_measurement(TPC_B, "tps") for loaded in measured)
    return Promise(
        name=f"archiving {driver}",
        sentence=f"On {driver}, a busy database with WAL archiving has more than {LIMIT:g} of its throughput without.",
        measurements=(on, off, measured[0].make_measurement("history", "MB an hour")),
        ratios=(make_ratio("with archiving to without", on, off, above=LIMIT),),
        how=(
            f"{' '.join(pgbench.make_command(TPC_B, sizes.pgbench_seconds))} --host SOCKETS; scale "
            f"{sizes.pgbench_scale}; "
            f"{ROUNDS} rounds; vacuum, checkpoint and sync before each run",
            f"history: the same with --rate {RATE} for {sizes.history_seconds} s, {ROUNDS} times, as blocks of the "
            "archive; extrapolated to an hour",
            measured[0].home.storage_home.description,
        ),
        baseline=(
            "the same compute with archive_mode = off",
            "settings of both: " + ", ".join(postgresql_conf.render(SETTINGS, major=MAJOR).splitlines()),
        ),
    )

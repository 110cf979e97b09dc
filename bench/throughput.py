"""What a busy database loses on each file system against the machine's own.

The same compute with the same settings on every driver; one at a time is loaded by pgbench, the
others rest. Each run begins after a vacuum and a checkpoint. A third run follows a clone of the
parent: until a block is written again it is shared, and the first write has to move it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bench import homes, pgbench, places
from bench.by_hand import MAJOR
from bench.homes import SETTINGS, Compute, Home
from bench.pgbench import SELECT_ONLY, TPC_B
from bench.places import DRIVERS
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note, turns
from bench.sizes import Sizes
from bough.postgres import conf

BASELINE = "plain"
CLONED, BUSY, READING = "TPC-B after a clone", "TPC-B", "select-only"
_SCRIPTS = {BUSY: TPC_B, READING: SELECT_ONLY, CLONED: TPC_B}


@dataclass(slots=True)
class Loaded:
    """A compute on one driver, and its transactions a second by kind of load."""

    home: Home
    compute: Compute
    seconds: int
    seen: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def round(self) -> None:
        for what in (BUSY, READING, CLONED):
            await self.compute.settle()
            child = await self.home.child(self.compute) if what == CLONED else None
            self.seen[what].append(pgbench.per_second(self.compute.target, _SCRIPTS[what], self.seconds))
            if child:
                await child.drop()

    def figure(self, what: str) -> Figure:
        return Figure(name=f"{what} on {self.home.driver}", unit="tps", samples=tuple(self.seen[what]))


def measure(sizes: Sizes) -> Iterator[Promise]:
    places.check(DRIVERS, len(DRIVERS) * _image_gb(sizes))
    yield _promise(sizes, asyncio.run(_measure(sizes)))


async def _measure(sizes: Sizes) -> dict[str, Loaded]:
    async with AsyncExitStack() as stack:
        made = [await _filled(stack, driver, sizes) for driver in DRIVERS]
        for turn in turns(made):
            for loaded in turn:
                await loaded.round()
    return {loaded.home.driver: loaded for loaded in made}


async def _filled(stack: AsyncExitStack, driver: str, sizes: Sizes) -> Loaded:
    note(f"filling the compute on {driver}")
    home = await stack.enter_async_context(homes.opened(driver, _image_gb(sizes), thin=False))
    compute = await home.compute()
    await compute.run()
    pgbench.fill(compute.target, sizes.pgbench_scale)
    return Loaded(home, compute, sizes.pgbench_seconds)


def _image_gb(sizes: Sizes) -> int:
    """With room for the WAL between two checkpoints, and for what clones make a parent write again."""
    return 5 + sizes.pgbench_scale // 20


def _promise(sizes: Sizes, made: dict[str, Loaded]) -> Promise:
    native = places.file_system()
    others = [driver for driver in made if driver != BASELINE]
    return Promise(
        name="throughput",
        sentence=f"What a busy database does in a second on each file system, against {native} itself.",
        figures=tuple(loaded.figure(what) for what in _SCRIPTS for loaded in made.values()),
        ratios=(
            *(
                ratio(f"{what} on {driver} to {native}", made[driver].figure(what), made[BASELINE].figure(what))
                for what in (BUSY, READING)
                for driver in others
            ),
            *(
                ratio(f"{driver}: TPC-B after a clone to TPC-B", made[driver].figure(CLONED), made[driver].figure(BUSY))
                for driver in made
            ),
        ),
        how=_how(sizes, [made[driver] for driver in others]),
        baseline=(
            f"the same on a compute whose volume is on {native}: {made[BASELINE].home.place.description}",
            "settings of all: " + ", ".join(conf.text(SETTINGS, major=MAJOR).splitlines()),
        ),
    )


def _how(sizes: Sizes, others: list[Loaded]) -> tuple[str, ...]:
    lines = [" ".join(pgbench.command(script, sizes.pgbench_seconds)) for script in (TPC_B, SELECT_ONLY)]
    return (
        *(f"{line} --host SOCKETS" for line in lines),
        f"scale {sizes.pgbench_scale}; {ROUNDS} rounds over all drivers; vacuum, checkpoint and sync before each run",
        *(loaded.home.place.description for loaded in others),
    )

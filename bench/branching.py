"""A branch of a running database is there at once, whatever the database's size, and its clients hardly notice.

Clone and start are timed while the parent rests. A second branch, in the same round, is made while a
reader and a writer ask the parent a thousand times a second: its stall is the longest that either had
to wait from the begin of the clone until the branch is ready, beside the longest wait before it.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from bench import by_hand, copies, homes, parents, places
from bench.homes import Compute, Home
from bench.parents import FILLING, Kind
from bench.places import COPY_ON_WRITE, DRIVERS
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note, turns
from bench.sizes import Sizes
from bench.stalls import Probes
from bench.stopwatch import TOTAL, Stopwatch, Times, figures

STALL_LIMIT = 100.0  # milliseconds, on reflink
GROWTH_LIMIT = 2.0  # how many times as long the largest parent's branch may take
COPY_LIMIT_MB = 1024  # from here on a branch is ready sooner than a copy of a database at rest
QUIET = 1.5  # seconds of reading and writing before the clone

CLONE, START = "the clone", "its start"
_STALLS = "longest {} while it is made", "longest {} before"
READ, READ_BEFORE = (words.format("read") for words in _STALLS)
WRITE, WRITE_BEFORE = (words.format("write") for words in _STALLS)


@dataclass(slots=True)
class Parent:
    """One of a kind on one driver, and what was measured of its branches."""

    home: Home
    compute: Compute
    kind: Kind
    times: Times = field(default_factory=lambda: defaultdict(list))
    waits: Times = field(default_factory=lambda: defaultdict(list))

    async def branch(self) -> None:
        """While it rests: what others have left unwritten is not ours to pay for."""
        await self.compute.checkpoint()
        os.sync()
        watch = Stopwatch(self.times)
        child = await self.home.child(self.compute)
        watch.mark(CLONE)
        await child.run()
        watch.mark(START)
        watch.stop()
        await child.drop()

    async def branch_busy(self) -> None:
        """While it is read and written."""
        probes = Probes.asking(self.compute.target, self.kind.rows)
        try:
            await asyncio.sleep(QUIET)
            begin = time.perf_counter()
            child = await self.home.child(self.compute)
            await child.run()
            end = time.perf_counter()
        finally:
            reads, writes = probes.end()
        before = max(begin - QUIET, begin - (end - begin))
        self.waits[READ].append(reads.longest(begin, end))
        self.waits[READ_BEFORE].append(reads.longest(before, begin))
        self.waits[WRITE].append(writes.longest(begin, end))
        self.waits[WRITE_BEFORE].append(writes.longest(before, begin))
        await child.drop()


def measure(sizes: Sizes) -> Iterator[Promise]:
    """A promise for each kind of parent, as soon as it is measured, and one over all of them."""
    kinds = parents.kinds(sizes)
    places.check(DRIVERS, max(map(_needed_gb, kinds)))
    seen: dict[str, list[Parent]] = {}
    for kind in kinds:
        hands: Times = defaultdict(list)
        seen[kind.name] = asyncio.run(_measure(kind, DRIVERS if kind.plain else COPY_ON_WRITE, hands))
        yield _promise(kind, seen[kind.name], hands)
    largest = max((kind for kind in kinds if not kind.age), key=lambda kind: kind.megabytes)
    yield _growth(largest.name, seen[kinds[0].name], seen[largest.name])


async def _measure(kind: Kind, drivers: tuple[str, ...], hands: Times) -> list[Parent]:
    async with AsyncExitStack() as stack:
        place = stack.enter_context(by_hand.workplace())
        note(f"{kind.name}: filling the one that is copied by hand")
        source = await stack.enter_async_context(copies.filled(place, kind.fill))
        made = [await _parent(stack, driver, kind) for driver in drivers]
        for parent in made:
            await _branch_once(parent)
        for turn in turns(made):
            for parent in turn:
                await parent.branch()
                await parent.branch_busy()
            copies.copy_and_start(place, source, hands)
    return made


async def _parent(stack: AsyncExitStack, driver: str, kind: Kind) -> Parent:
    note(f"{kind.name}: filling the parent on {driver}")
    home = await stack.enter_async_context(homes.opened(driver, _image_gb(kind)))
    compute = await home.compute()
    await compute.run(homes.SETTINGS | FILLING)
    await kind.fill(compute.target)
    await compute.run()
    if kind.age:
        note(f"{kind.name}: ageing the parent on {driver}")
        await kind.age(home, compute)
    return Parent(home, compute, kind)


async def _branch_once(parent: Parent) -> None:
    """Without counting: files come into the page cache."""
    child = await parent.home.child(parent.compute)
    await child.run()
    await child.drop()


def _image_gb(kind: Kind) -> int:
    return 4 + (2 + kind.clones) * kind.megabytes // 1024


def _needed_gb(kind: Kind) -> float:
    """On every driver, by hand and as a copy, with the WAL that each keeps and the clones that stay."""
    gigabytes = kind.megabytes / 1024
    return (len(DRIVERS) + 2) * (1.2 * gigabytes + 1) + len(COPY_ON_WRITE) * kind.clones * gigabytes


def _promise(kind: Kind, made: list[Parent], hands: Times) -> Promise:
    copied = figures("by hand", hands)
    limit = 1.0 if kind.megabytes >= COPY_LIMIT_MB and not kind.age else None
    branched = {parent.home.driver: figures(parent.home.driver, parent.times) for parent in made}
    return Promise(
        name=f"branching {kind.name}",
        sentence=f"While a branch of a running database ({kind.name}) is made, its clients wait for less than "
        f"{STALL_LIMIT:g} ms on reflink{'' if limit is None else ', and it is ready sooner than a copy'}.",
        figures=(
            *(figure for times in branched.values() for figure in times.values()),
            *copied.values(),
            *(figure for parent in made for figure in _waits(parent)),
        ),
        ratios=tuple(
            ratio(
                f"{driver} to a copy by hand", times[TOTAL], copied[TOTAL], limit if driver in COPY_ON_WRITE else None
            )
            for driver, times in branched.items()
        ),
        how=_how(made),
        baseline=copies.configuration(),
    )


def _waits(parent: Parent) -> Iterator[Figure]:
    driver = parent.home.driver
    for what, samples in parent.waits.items():
        limit = STALL_LIMIT if driver == "reflink" and what in (READ, WRITE) else None
        yield Figure(name=f"{driver}: {what}", unit="ms", samples=tuple(samples), below=limit)


def _how(made: list[Parent]) -> tuple[str, ...]:
    return (
        f"the engine's ensure_branch and ensure_running on a running parent, until the branch runs; {ROUNDS} rounds",
        "timed after a checkpoint and a sync; the waits are those of a second branch, made while one process reads and "
        "one writes rows at random, and before it for as long",
        *(parent.home.place.description for parent in made),
    )


def _growth(largest: str, fresh: list[Parent], large: list[Parent]) -> Promise:
    small = {parent.home.driver: figures(parent.home.driver, parent.times)[TOTAL] for parent in fresh}
    big = {parent.home.driver: figures(parent.home.driver, parent.times)[TOTAL] for parent in large}
    first = fresh[0].kind.name
    return Promise(
        name="branching growth",
        sentence=f"With copy-on-write a branch of {largest} takes no more than {GROWTH_LIMIT:g} times what one of "
        f"{first} takes.",
        figures=tuple(big[driver] for driver in COPY_ON_WRITE),
        ratios=tuple(
            ratio(f"{driver}: {largest} to {first}", big[driver], small[driver], below=GROWTH_LIMIT)
            for driver in COPY_ON_WRITE
        ),
        how=("the rounds of both kinds from above, the first with the first and so on",),
        baseline=(f"the same of a parent of {first}",),
    )

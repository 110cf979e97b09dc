"""A clone takes little of the disk: only what is written after it.

What is taken is asked of the image's own file system, synced, before the clone, after it, and when its
compute has started and answered. What is outside an image is counted file by file, because others
write to that disk too.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import homes, places
from bench.homes import Compute, Home, connected
from bench.parents import FILLING, Kind, of_rows
from bench.places import COPY_ON_WRITE, DRIVERS
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note, turns
from bench.sizes import Sizes
from bough.engine.local.durable import sync_filesystem

LIMIT = 0.05  # of the parent, with copy-on-write
PARENT, CLONED, STARTED = "its parent", "a clone", "… started, and asked a little"
SEGMENTS = 64  # more of WAL than a server keeps that was just filled
_QUESTIONS = (
    "select count(*) from rows_of_a_kb where id < 1000",
    "create table if not exists notes (id bigint primary key, words text)",
    "insert into notes select n, md5(n::text) from generate_series(1, 1000) n",
    "update rows_of_a_kb set filling = reverse(filling) where id < 100",
)
_BLOCK = 512  # what st_blocks counts


@dataclass(slots=True)
class Parent:
    home: Home
    compute: Compute
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # megabytes

    async def round(self) -> None:
        """The clone stays, for the room of a removed one comes back when the file system likes."""
        await self.compute.checkpoint()
        before = self._used()
        child = await self.home.child(self.compute)
        self.taken[CLONED].append((self._used() - before) / 1024**2)
        await child.run()
        async with connected(child.target) as session:
            for question in _QUESTIONS:
                await session.execute(question)
        await child.checkpoint()
        self.taken[STARTED].append((self._used() - before) / 1024**2)
        self.taken[PARENT].append(_bytes_in(self.compute.data) / 1024**2)
        await child.suspend()

    def _used(self) -> int:
        sync_filesystem(self.home.place.volumes)
        if self.home.driver == "plain":
            return _bytes_in(self.home.place.volumes)
        seen = os.statvfs(self.home.place.volumes)
        return (seen.f_blocks - seen.f_bfree) * seen.f_frsize + _bytes_in(self.home.place.home / "pg_wal")

    def figure(self, what: str) -> Figure:
        return Figure(name=f"{self.home.driver}: {what}", unit="MB", samples=tuple(self.taken[what]))


def measure(sizes: Sizes) -> Iterator[Promise]:
    places.check(DRIVERS, (len(DRIVERS) + ROUNDS) * (1.2 * sizes.cloned_mb / 1024 + 1))
    kind = of_rows(sizes.cloned_mb)
    yield _promise(kind, asyncio.run(_measure(kind)))


async def _measure(kind: Kind) -> list[Parent]:
    async with AsyncExitStack() as stack:
        made = [await _parent(stack, driver, kind) for driver in DRIVERS]
        for turn in turns(made):
            for parent in turn:
                await parent.round()
    return made


async def _parent(stack: AsyncExitStack, driver: str, kind: Kind) -> Parent:
    note(f"filling the parent on {driver}")
    home = await stack.enter_async_context(homes.opened(driver, 4 + 2 * kind.megabytes // 1024))
    compute = await home.compute()
    await compute.run(homes.SETTINGS | FILLING)
    await kind.fill(compute.target)
    await compute.run()
    # Segments that filling left for reuse would go one by one, with every clone, and hide what it takes.
    await compute.command(*("checkpoint", "select pg_switch_wal()") * SEGMENTS)
    return Parent(home, compute)


def _bytes_in(folder: Path) -> int:
    """On disk; a file may go while we look."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{parent}/{name}").st_blocks * _BLOCK
            except FileNotFoundError:
                continue
    return total


def _promise(kind: Kind, made: list[Parent]) -> Promise:
    return Promise(
        name="clone_size",
        sentence=f"With copy-on-write a clone takes less than {LIMIT:g} of its parent's room on disk.",
        figures=tuple(parent.figure(what) for parent in made for what in (PARENT, CLONED, STARTED)),
        ratios=tuple(
            ratio(
                f"{parent.home.driver}: {what} to its parent",
                parent.figure(what),
                parent.figure(PARENT),
                below=LIMIT if parent.home.driver in COPY_ON_WRITE else None,
            )
            for parent in made
            for what in (CLONED, STARTED)
        ),
        how=(
            f"statvfs of the image after syncfs, {ROUNDS} clones of one running parent of {kind.name}",
            "outside an image the blocks of all files",
            "asked: " + "; ".join(_QUESTIONS),
            *(parent.home.place.description for parent in made),
        ),
        baseline=("the parent's own data folder: the blocks of all its files",),
    )

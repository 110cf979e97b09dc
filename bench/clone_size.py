"""A branch takes little of the disk: only what is written after it.

What is taken is asked of the image's own file system, synced, before the branch is made by the API,
when it is there without an endpoint, and when it has one that was asked through the gateway. What is
outside an image is counted file by file, because others write to that disk too.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench import parents, places, program, projects
from bench.parents import Kind
from bench.places import COPY_ON_WRITE, DRIVERS, Place
from bench.projects import ADDRESS, READ_WRITE, Project
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note
from bench.sizes import Sizes
from bough.engine.local.durable import sync_filesystem

LIMIT = 0.05  # of the parent, with copy-on-write
PARENT, CLONED, STARTED = "its parent", "a branch", "… started, and asked a little"
SEGMENTS = 300  # more of WAL than a server keeps: max_wal_size is 1 GB, a segment 4 MB
_QUESTIONS = (
    "select count(*) from rows_of_a_kb where id < 1000",
    "create table if not exists notes (id bigint primary key, words text)",
    "insert into notes select n, md5(n::text) from generate_series(1, 1000) n",
    "update rows_of_a_kb set filling = reverse(filling) where id < 100",
)
_BLOCK = 512  # what st_blocks counts


@dataclass(slots=True)
class Parent:
    place: Place
    project: Project
    volume: str
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # megabytes

    def round(self) -> None:
        """The branch stays, for the room of a removed one comes back when the file system likes."""
        self.project.command("checkpoint")
        before = self._used()
        branch = self.project.branch(endpoint=False)
        branch.until_done()
        self.taken[CLONED].append((self._used() - before) / 1024**2)
        endpoint = self.project.endpoint(READ_WRITE, branch.id)
        with psycopg.connect(f"{endpoint.uri}&hostaddr={ADDRESS}", autocommit=True) as session:
            for question in _QUESTIONS:
                session.execute(question.encode())
        self.project.command("checkpoint", endpoint=endpoint.id)
        self.taken[STARTED].append((self._used() - before) / 1024**2)
        self.taken[PARENT].append(_bytes_in(self.place.volumes / self.volume / "data") / 1024**2)
        endpoint.delete()

    def _used(self) -> int:
        sync_filesystem(self.place.volumes)
        if self.place.driver == "plain":
            return _bytes_in(self.place.volumes)
        seen = os.statvfs(self.place.volumes)
        return (seen.f_blocks - seen.f_bfree) * seen.f_frsize + _bytes_in(self.place.home / "pg_wal")

    def figure(self, what: str) -> Figure:
        return Figure(name=f"{self.place.driver}: {what}", unit="MB", samples=tuple(self.taken[what]))


def measure(sizes: Sizes) -> Iterator[Promise]:
    places.check(DRIVERS, (1 + ROUNDS) * (1.2 * sizes.cloned_mb / 1024 + 1))
    kind = parents.of_rows(sizes.cloned_mb)
    yield _promise(kind, [_measure(driver, kind) for driver in DRIVERS])


def _measure(driver: str, kind: Kind) -> Parent:
    note(f"filling the parent on {driver}")
    image_gb = 4 + 2 * kind.megabytes // 1024
    with program.running(driver, projects.VARIABLES, image_gb) as platform, platform.client() as client:
        project = Project(platform, client, kind.name)
        (volume,) = platform.postmasters()
        parent = Parent(platform.place, project, volume)
        asyncio.run(kind.fill(project.target))
        # Segments that filling left for reuse would go one by one, with every branch, and hide what it takes.
        project.command(*("checkpoint", "select pg_switch_wal()") * SEGMENTS)
        for number in range(ROUNDS):
            note(f"round {number + 1} of {ROUNDS}")
            parent.round()
    return parent


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
        sentence=f"With copy-on-write a branch takes less than {LIMIT:g} of its parent's room on disk.",
        figures=tuple(parent.figure(what) for parent in made for what in (PARENT, CLONED, STARTED)),
        ratios=tuple(
            ratio(
                f"{parent.place.driver}: {what} to its parent",
                parent.figure(what),
                parent.figure(PARENT),
                below=LIMIT if parent.place.driver in COPY_ON_WRITE else None,
            )
            for parent in made
            for what in (CLONED, STARTED)
        ),
        how=(
            projects.CONFIGURATION,
            f"statvfs of the image after syncfs; {ROUNDS} times POST /projects/{{id}}/branches, of a running parent of "
            f"{kind.name}, then POST /projects/{{id}}/endpoints",
            "outside an image the blocks of all files",
            "asked: " + "; ".join(_QUESTIONS),
            *(parent.place.description for parent in made),
        ),
        baseline=("the parent's own data folder: the blocks of all its files",),
    )

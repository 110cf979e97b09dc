"""A restore to a random moment takes as long for a large database as for a small one, when as much was written.

The time is its owner's: `POST …/restore` of the default branch to a moment of the last writes, until a row comes
through the gateway on a connection made after the restore. Before each round both databases are written to alike, and
the moment is at the same share of those writes. The baseline is the same by hand: see `replays`.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx2

from bench import by_hand, parents, places, program, projects, replays
from bench.homes import connected
from bench.parents import Kind
from bench.pgbench import Target
from bench.places import COPY_ON_WRITE
from bench.program import Program
from bench.projects import ADDRESS, Project
from bench.promise import Figure, Promise, ratio
from bench.replays import Archiving, Backup
from bench.rounds import ROUNDS, note, turns
from bench.sizes import FULL, Sizes
from bench.stopwatch import TOTAL, Stopwatch, Times, figures

GROWTH_LIMIT = 1.5  # how many times as long as the small one the large one may take
BY_HAND_LIMIT = 0.1  # of what it takes by hand, for the large one
RESTORED, FIRST_ROW = "the restore is over", "connect and read a row"
_STEPS = 20  # transactions that the writes come in; a moment lies between two of them
_TABLE = "create table if not exists written (id bigserial primary key, filling text not null)"
_WRITE = "insert into written (filling) select repeat(md5(n::text), 30) from generate_series(1, {rows}) n"


@dataclass(slots=True)
class Restored:
    """One database on the platform and by hand, and how long its restores took."""

    kind: Kind
    project: Project
    by_hand: Archiving
    times: Times = field(default_factory=lambda: defaultdict(list))
    replaying: Times = field(default_factory=lambda: defaultdict(list))

    def round(self, wal_mb: int, share: float) -> None:
        moment = asyncio.run(_written(self.project.target, wal_mb, share))
        watch = Stopwatch(self.times)
        branch = f"{self.project.path}/branches/{self.project.made['branch']['id']}"
        asked = {
            "source_branch_id": self.project.made["branch"]["id"],
            "source_timestamp": moment.isoformat(),
            "preserve_under_name": f"before {time.time_ns()}",
        }
        self.project.platform.until_ended(self.project.request("POST", f"{branch}/restore", asked))
        watch.mark(RESTORED)
        uri = self.project.made["connection_uris"][0]["connection_uri"]
        projects.first_row(f"{uri}&hostaddr={ADDRESS}", self.kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        self._forget(asked["preserve_under_name"])

    def replay(self, wal_mb: int, share: float) -> None:
        with by_hand.postgres(self.by_hand.server.sockets.parent) as copy:
            backup = Backup(self.by_hand, copy, self.replaying)
            moment = asyncio.run(_written(self.by_hand.target, wal_mb, share))
            self.by_hand.until_archived()
            backup.restore(moment, self.kind)

    def _forget(self, name: str) -> None:
        found = self.project.request("GET", f"{self.project.path}/branches?search={name.replace(' ', '%20')}")
        for branch in found["branches"]:
            answer = self.project.request("DELETE", f"{self.project.path}/branches/{branch['id']}")
            if answer["operations"]:
                self.project.platform.until_ended(answer)


def measure(sizes: Sizes) -> Iterator[Promise]:
    """One promise a driver that shares blocks; a copy of the whole is what a restore has to be without."""
    kinds = [parents.small(), parents.of_rows(sizes.restored_mb)]
    places.check(COPY_ON_WRITE, 6 * sizes.restored_mb / 1024 + 10)
    with by_hand.workplace() as place, ExitStack() as stack:
        servers = {}
        for kind in kinds:
            note(f"{kind.name}: filling the one that is restored by hand")
            servers[kind.name] = stack.enter_context(replays.filled(place, kind))
        for driver in ("reflink", "btrfs+wal"):
            yield _measure(driver, kinds, servers, sizes)


def _measure(driver: str, kinds: list[Kind], servers: dict[str, Archiving], sizes: Sizes) -> Promise:
    variables = {**projects.VARIABLES, "BOUGH_RECOVERABLE_BRANCH_SECONDS": "0"}
    image_gb = 10 + 3 * sizes.restored_mb // 1024
    with program.running(driver, variables, image_gb) as platform, platform.client() as client:
        made = [_filled(platform, client, kind, servers[kind.name]) for kind in kinds]
        dice = random.Random(7)
        for each in made:  # once without counting: programs and files come into memory
            each.round(sizes.restored_wal_mb, 0.5)
            each.times.clear()
        for turn in turns(made):
            share = dice.random()
            for each in turn:
                each.round(sizes.restored_wal_mb, share)
                each.replay(sizes.restored_wal_mb, share)
        return _promise(driver, made, sizes, platform.place.description)


def _filled(platform: Program, client: httpx2.Client, kind: Kind, server: Archiving) -> Restored:
    note(f"{kind.name}: filling the one on {platform.place.driver}")
    project = Project(platform, client, kind.name)
    history = {"project": {"history_retention_seconds": 0}}
    project.request("PATCH", project.path, history)  # the filling is nothing to go back to
    asyncio.run(kind.fill(project.target))
    project.request("PATCH", project.path, {"project": {"history_retention_seconds": 3600}})
    _until_based(project)
    return Restored(kind, project, server)


async def _written(target: Target, megabytes: int, share: float) -> datetime:
    """Writes so much in equal steps; the moment after this share of them."""
    steps = max(1, min(_STEPS - 1, round(share * _STEPS)))
    moment = datetime.now(UTC)
    async with connected(target) as session:
        await session.execute(_TABLE)
        for step in range(_STEPS):
            if step == steps:
                moment = datetime.now(UTC)
                await asyncio.sleep(0.01)
            await session.execute(_WRITE.format(rows=megabytes * 1024 // _STEPS))
    return moment


def _until_based(project: Project) -> None:
    """Its history begins with what was filled in; what is asked for is before it, and refused."""
    asked = {"branch": {"parent_timestamp": "2000-01-01T00:00:00Z"}}
    deadline = time.monotonic() + program.PATIENCE_WITH_WORK
    while "no history to go back to yet" in project.refused("POST", f"{project.path}/branches", asked):
        if time.monotonic() > deadline:
            raise RuntimeError("no base was taken")
        time.sleep(0.1)


def _promise(driver: str, made: list[Restored], sizes: Sizes, place: str) -> Promise:
    small, large = made
    is_full = sizes.restored_mb >= FULL.restored_mb
    return Promise(
        name=f"restoring {driver}",
        sentence=f"On {driver} a restore of {large.kind.name} to a moment takes less than {GROWTH_LIMIT:g} times what "
        f"one of {small.kind.name} takes when as much was written"
        + (", and less than a tenth of what it takes by hand." if is_full else "."),
        figures=tuple(figure for each in made for figure in _figures(each)),
        ratios=(
            ratio(f"{large.kind.name} to {small.kind.name}", _total(large), _total(small), below=GROWTH_LIMIT),
            *(
                ratio(
                    f"{each.kind.name} to by hand",
                    _total(each),
                    figures("by hand", each.replaying)[TOTAL],
                    below=BY_HAND_LIMIT if each is large and is_full else None,
                )
                for each in made
            ),
        ),
        how=(
            projects.CONFIGURATION,
            f"POST …/branches/ID/restore to a moment of the last {sizes.restored_wal_mb} MB that were written, its "
            f"compute running; until its operations ended, then psycopg: connect, read a row; {ROUNDS} rounds",
            place,
        ),
        baseline=(f"the same of {small.kind.name}; and by hand:", *replays.configuration()),
    )


def _figures(each: Restored) -> Iterator[Figure]:
    yield from figures(each.kind.name, each.times).values()
    yield from figures(f"{each.kind.name}, by hand", each.replaying).values()


def _total(each: Restored) -> Figure:
    return figures(each.kind.name, each.times)[TOTAL]

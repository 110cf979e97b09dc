"""A read replica of a running database gives its first row at once, whatever the database's size.

The time is its owner's: `POST /projects/{id}/endpoints` of type `read_only`, then a connection through
the gateway to its host, made at once, and a row that the branch has.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench import by_hand, parents, places, program, projects, standbys
from bench.by_hand import Postgres
from bench.parents import Kind
from bench.places import COPY_ON_WRITE
from bench.projects import READ_ONLY, Project
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note, turns
from bench.sizes import Sizes
from bench.stopwatch import TOTAL, Stopwatch, Times, figures

DRIVERS = ("reflink", "btrfs+wal", "plain")
GROWTH_LIMIT = 1.5  # with copy-on-write: how many times as long as the small one's the large one's replica may take
ANSWERED, FIRST_ROW = "POST is answered", "connect and read a row"


@dataclass(slots=True)
class Primary:
    """One of a kind, on the platform and by hand, and how long its replicas took."""

    kind: Kind
    project: Project
    by_hand: Postgres
    times: Times = field(default_factory=lambda: defaultdict(list))
    standing_by: Times = field(default_factory=lambda: defaultdict(list))

    def replicate(self) -> None:
        self.project.command("checkpoint")
        os.sync()
        watch = Stopwatch(self.times)
        made = self.project.endpoint(READ_ONLY)
        watch.mark(ANSWERED)
        made.first_row(self.kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        made.delete()

    def back_up(self) -> None:
        os.sync()
        standbys.back_up_and_ask(self.by_hand, self.kind, self.standing_by)

    @property
    def ours(self) -> dict[str, Figure]:
        return figures(self.kind.name, self.times)

    @property
    def baseline(self) -> Figure:
        return figures(f"{self.kind.name}, by hand", self.standing_by)[TOTAL]


def measure(sizes: Sizes) -> Iterator[Promise]:
    kinds = [parents.small(), parents.of_rows(sizes.replicated_mb)]
    places.check(DRIVERS, 5 * (sizes.replicated_mb / 1024 + 2))
    with by_hand.workplace() as place, ExitStack() as stack:
        servers = [stack.enter_context(standbys.filled(place, kind)) for kind in kinds]
        for driver in DRIVERS:
            note(f"replicas on {driver}")
            yield _measure(driver, list(zip(kinds, servers, strict=True)))


def _measure(driver: str, kinds: list[tuple[Kind, Postgres]]) -> Promise:
    with program.running(driver, projects.VARIABLES) as platform, platform.client() as client:
        made = [Primary(kind, Project(platform, client, kind.name), server) for kind, server in kinds]
        for primary in made:
            asyncio.run(primary.kind.fill(primary.project.target))
            primary.replicate()  # once without counting: files come into the page cache
            primary.times.clear()
        for turn in turns(made):
            for primary in turn:
                primary.replicate()
                primary.back_up()
        return _promise(driver, made, platform.place.description)


def _promise(driver: str, made: list[Primary], place: str) -> Promise:
    small, large = made
    is_limited = driver in COPY_ON_WRITE
    times = f"in less than {GROWTH_LIMIT:g} times what one of {small.kind.name} takes"
    return Promise(
        name=f"replica {driver}",
        sentence=f"On {driver} a read replica of {large.kind.name}, asked for by the API, gives its first row through "
        f"the gateway {times if is_limited else 'when the whole branch is copied'}.",
        figures=tuple(figure for each in made for figure in (*each.ours.values(), each.baseline)),
        ratios=(
            ratio(
                f"{large.kind.name} to {small.kind.name}",
                large.ours[TOTAL],
                small.ours[TOTAL],
                below=GROWTH_LIMIT if is_limited else None,
            ),
            *(ratio(f"{each.kind.name} to by hand", each.ours[TOTAL], each.baseline) for each in made),
        ),
        how=(
            projects.CONFIGURATION,
            'POST /projects/{id}/endpoints {"endpoint": {"type": "read_only", "branch_id": …}}, its branch running; '
            f"then at once psycopg: connect to its host by the gateway, read a row; {ROUNDS} rounds",
            "after a checkpoint and a sync; the replica is deleted before the next is made",
            place,
        ),
        baseline=(f"the same of a branch of {small.kind.name}; and by hand:", *standbys.configuration()),
    )

"""While branches are made of a database, its clients hardly notice.

A reader and a writer ask the parent by its socket, each a process of its own, a statement every
millisecond or so, each statement a transaction. First nothing else happens; then branches are made by
the API, one after another, each until its first row. What 99 in a hundred transactions took is set
beside the same before, and the longest wait is that of a usual branch: the median over the branches.

A file system may keep its clients waiting by itself, as btrfs does with every commit when WAL is on it.
So those of a much written parent are left alone for some minutes, too, and what they wait then is shown
beside; the limit stays.
"""

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.parents import Kind
from bench.projects import Made, Project
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS
from bench.stalls import PAUSE, Probes, Waits
from bench.stopwatch import Times

STALL_LIMIT = 100.0  # milliseconds
P99, P99_BEFORE = "p99 of {}s while branches are made", "p99 of {}s before"
LONGEST = "longest {} while one is made"
ALONE = "longest {} of {:g} s without branches"
_ASKED = ("read", "write")


@dataclass(slots=True)
class Clients:
    """Those of one parent, and how long they waited."""

    project: Project
    kind: Kind
    seconds: float
    alone_seconds: float
    waits: Times = field(default_factory=lambda: defaultdict(list))
    made: int = 0

    def round(self) -> None:
        os.sync()  # what the clients of others have left unwritten is not measured here
        probes = Probes.asking(self.project.target, self.kind.rows)
        try:
            before = time.perf_counter()
            time.sleep(self.seconds)
            branches = self._branch_for_a_while()
        finally:
            told = probes.end()
        for what, waits in zip(_ASKED, told, strict=True):
            self._note(what, waits, before, [span for _, span in branches])
        self.made += len(branches)
        for branch, _ in branches:
            branch.delete()

    def alone(self) -> None:
        """As many stretches as there are rounds; only where writes are scattered it takes long enough to matter."""
        if self.kind.age is None:
            return
        os.sync()
        probes = Probes.asking(self.project.target, self.kind.rows)
        try:
            begin = time.perf_counter()
            time.sleep(ROUNDS * self.alone_seconds)
        finally:
            told = probes.end()
        for what, waits in zip(_ASKED, told, strict=True):
            for number in range(ROUNDS):
                since = begin + number * self.alone_seconds
                longest = waits.longest(since, since + self.alone_seconds)
                self.waits[self._alone(what)].append(longest)

    def _branch_for_a_while(self) -> list[tuple[Made, tuple[float, float]]]:
        """One at least, with when it began and was ready. They are deleted later: that is not what is measured."""
        until = time.perf_counter() + self.seconds
        made: list[tuple[Made, tuple[float, float]]] = []
        while not made or time.perf_counter() < until:
            begin = time.perf_counter()
            branch = self.project.branch()
            branch.first_row(self.kind.rows)
            made.append((branch, (begin, time.perf_counter())))
        return made

    def _note(self, what: str, waits: Waits, before: float, spans: list[tuple[float, float]]) -> None:
        begin, end = spans[0][0], spans[-1][1]
        self.waits[P99_BEFORE.format(what)].append(waits.p99(before, begin))
        self.waits[P99.format(what)].append(waits.p99(begin, end))
        self.waits[LONGEST.format(what)].append(statistics.median(waits.longest(*span) for span in spans))

    def figures(self) -> Iterator[Figure]:
        for what in _ASKED:
            yield self.figure(P99_BEFORE.format(what))
            yield self.figure(P99.format(what))
            if self.waits[self._alone(what)]:
                yield self.figure(self._alone(what))
            yield self.figure(LONGEST.format(what), STALL_LIMIT)

    def _alone(self, what: str) -> str:
        return ALONE.format(what, self.alone_seconds)

    def figure(self, what: str, below: float | None = None) -> Figure:
        return Figure(name=f"{self.kind.name}: {what}", unit="ms", samples=tuple(self.waits[what]), below=below)


def promise(driver: str, made: list[Clients], place: str) -> Promise:
    return Promise(
        name=f"branch_waits {driver}",
        sentence=(
            f"On {driver}, while branches of a running database are made, "
            f"its clients wait for less than {STALL_LIMIT:g} ms at the longest."
        ),
        figures=tuple(figure for clients in made for figure in clients.figures()),
        ratios=tuple(
            ratio(
                f"{clients.kind.name}: p99 of {what}s, to before",
                clients.figure(P99.format(what)),
                clients.figure(P99_BEFORE.format(what)),
            )
            for clients in made
            for what in _ASKED
        ),
        how=(
            f"one process reads and one writes rows at random by the parent's socket, {PAUSE * 1e3:g} ms between two; "
            "each round begins with a sync",
            f"{made[0].seconds:g} s with branches one after another, over {ROUNDS} rounds: "
            + ", ".join(f"{clients.made} of {clients.kind.name}" for clients in made),
            *dict.fromkeys(f"{rows.read}; {rows.write}" for rows in (clients.kind.rows for clients in made)),
            place,
        ),
        baseline=(
            f"the same clients for {made[0].seconds:g} s before, while no branch is made",
            f"those of an aged parent for {ROUNDS} times {made[0].alone_seconds:g} s after all branches",
        ),
    )

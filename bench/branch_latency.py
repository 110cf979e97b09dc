"""Creating branches of a database hardly delays its clients.

A reader and a writer, each in its own process, send the parent a statement about every millisecond through its socket;
each statement is a transaction. They run first without branches, then while the API creates one branch after another.
The 99th percentile is compared with the time before; the longest wait is the median over the branches.

A file system may delay its clients by itself, as btrfs does with every commit if WAL is on it. Therefore the waits of
a heavily written parent are also measured for some minutes without branches and shown for comparison; the limit is
the same.
"""

import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.latency_probe import PAUSE_SECONDS, Latencies, Probes
from bench.parent_databases import ParentKind
from bench.project_client import BenchProject, CreatedResource
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS
from bench.stopwatch import Times

STALL_LIMIT = 100.0  # milliseconds
P99, P99_BEFORE = "p99 of {}s while branches are created", "p99 of {}s before"
LONGEST = "longest {} while a branch is created"
UNDISTURBED = "longest {} of {:g} s without branches"
_ASKED = ("read", "write")


@dataclass(slots=True)
class BranchClients:
    """The clients of one parent and their latencies."""

    project: BenchProject
    kind: ParentKind
    seconds: float
    undisturbed_seconds: float
    latencies: Times = field(default_factory=lambda: defaultdict(list))
    branch_count: int = 0

    def run_round(self) -> None:
        os.sync()  # unwritten data of other clients must not be measured here
        probes = Probes.start(self.project.target, self.kind.rows)
        try:
            before = time.perf_counter()
            time.sleep(self.seconds)
            branches = self._create_branches()
        finally:
            latencies = probes.stop()
        for what, waits in zip(_ASKED, latencies, strict=True):
            self._note(what, waits, before, [span for _, span in branches])
        self.branch_count += len(branches)
        for branch, _ in branches:
            branch.delete()

    def measure_undisturbed(self) -> None:
        """Measure one period per round, only for parents with scattered writes, where it matters."""
        if self.kind.age is None:
            return
        os.sync()
        probes = Probes.start(self.project.target, self.kind.rows)
        try:
            begin = time.perf_counter()
            time.sleep(ROUNDS * self.undisturbed_seconds)
        finally:
            latencies = probes.stop()
        for what, waits in zip(_ASKED, latencies, strict=True):
            for number in range(ROUNDS):
                since = begin + number * self.undisturbed_seconds
                longest = waits.longest(since, since + self.undisturbed_seconds)
                self.latencies[self._alone(what)].append(longest)

    def _create_branches(self) -> list[tuple[CreatedResource, tuple[float, float]]]:
        """Create at least one branch; return when each was started and ready. They are deleted afterwards."""
        until = time.perf_counter() + self.seconds
        created: list[tuple[CreatedResource, tuple[float, float]]] = []
        while not created or time.perf_counter() < until:
            begin = time.perf_counter()
            branch = self.project.create_branch()
            branch.read_first_row(self.kind.rows)
            created.append((branch, (begin, time.perf_counter())))
        return created

    def _note(self, what: str, waits: Latencies, before: float, spans: list[tuple[float, float]]) -> None:
        begin, end = spans[0][0], spans[-1][1]
        self.latencies[P99_BEFORE.format(what)].append(waits.p99(before, begin))
        self.latencies[P99.format(what)].append(waits.p99(begin, end))
        self.latencies[LONGEST.format(what)].append(statistics.median(waits.longest(*span) for span in spans))

    def make_measurements(self) -> Iterator[Measurement]:
        for what in _ASKED:
            yield self.make_measurement(P99_BEFORE.format(what))
            yield self.make_measurement(P99.format(what))
            if self.latencies[self._alone(what)]:
                yield self.make_measurement(self._alone(what))
            yield self.make_measurement(LONGEST.format(what), STALL_LIMIT)

    def _alone(self, what: str) -> str:
        return UNDISTURBED.format(what, self.undisturbed_seconds)

    def make_measurement(self, what: str, below: float | None = None) -> Measurement:
        return Measurement(
            name=f"{self.kind.name}: {what}", unit="ms", samples=tuple(self.latencies[what]), below=below
        )


def build_promise(driver: str, measured: list[BranchClients], storage_description: str) -> Promise:
    return Promise(
        name=f"branch_waits {driver}",
        sentence=(
            f"On {driver}, while branches of a running database are created, "
            f"the longest wait of its clients is less than {STALL_LIMIT:g} ms."
        ),
        measurements=tuple(figure for clients in measured for figure in clients.make_measurements()),
        ratios=tuple(
            make_ratio(
                f"{clients.kind.name}: p99 of {what}s, to before",
                clients.make_measurement(P99.format(what)),
                clients.make_measurement(P99_BEFORE.format(what)),
            )
            for clients in measured
            for what in _ASKED
        ),
        how=(
            "one process reads and one writes random rows through the parent's socket, "
            f"{PAUSE_SECONDS * 1e3:g} ms between two; "
            "each round starts with a sync",
            f"{measured[0].seconds:g} s with branches one after another, over {ROUNDS} rounds: "
            + ", ".join(f"{clients.branch_count} of {clients.kind.name}" for clients in measured),
            *dict.fromkeys(f"{rows.read}; {rows.write}" for rows in (clients.kind.rows for clients in measured)),
            storage_description,
        ),
        baseline=(
            f"the same clients for {measured[0].seconds:g} s before, without branches",
            f"clients of an aged parent for {ROUNDS} times {measured[0].undisturbed_seconds:g} s after all branches",
        ),
    )

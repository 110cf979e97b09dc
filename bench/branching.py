"""A branch of a running database returns its first row at once, whatever the size of the database.

The time is that of a user: `POST /projects/{id}/branches` with an endpoint, then an immediate connection through the
gateway with the returned connection string, and a row of the parent. Parents of every kind are projects of one
platform, so each round measures all of them. The latencies of the parents' clients are measured afterwards:
see `branch_latency`.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import httpx2

from bench import branch_latency, cold_copy, parent_databases, program, project_client, storage
from bench.branch_latency import BranchClients
from bench.parent_databases import ParentKind
from bench.plain_postgres import PlainPostgres, create_work_folder
from bench.program import Program
from bench.project_client import BenchProject, CreatedResource, elapsed_milliseconds
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bench.stopwatch import TOTAL, Stopwatch, Times, make_measurements
from bench.storage import COPY_ON_WRITE, DRIVERS

GROWTH_LIMIT = 1.5  # limit for a branch of the largest parent, to one of the smallest
COPY_LIMIT_MB = 1024  # from this size on, a branch must be faster than a copy of a stopped server
ANSWERED, FIRST_ROW = "POST is answered", "connect and read a row"


@dataclass(slots=True)
class BranchedParent:
    """A parent on the platform and its baseline server, and the durations of its branches and copies."""

    kind: ParentKind
    project: BenchProject
    plain_postgres: PlainPostgres
    times: Times = field(default_factory=lambda: defaultdict(list))
    copy_times: Times = field(default_factory=lambda: defaultdict(list))

    def measure_branch(self) -> None:
        """Sync the disk first, so that unwritten data of others is not measured."""
        self.project.execute_as_admin("checkpoint")
        os.sync()
        watch = Stopwatch(self.times)
        branch = self.project.create_branch()
        watch.mark(ANSWERED)
        branch.read_first_row(self.kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        branch.wait_until_finished()
        self._note(branch)
        branch.delete()

    def measure_copy(self) -> None:
        os.sync()
        cold_copy.copy_and_query(self.plain_postgres, self.kind, self.copy_times)

    def _note(self, branch: CreatedResource) -> None:
        """Record the durations that the operations report."""
        paths = [f"{self.project.path}/operations/{each['id']}" for each in branch.response["operations"]]
        clone, start = (self.project.request("GET", path)["operation"] for path in paths)
        self.times["… from POST until the volume exists"].append(
            elapsed_milliseconds(clone["created_at"], clone["updated_at"])
        )
        self.times["… until its compute runs"].append(elapsed_milliseconds(clone["updated_at"], start["updated_at"]))


def measure(sizes: Sizes) -> Iterator[Promise]:
    """Yield two promises for each driver as soon as they are measured."""
    kinds = parent_databases.list_parent_kinds(sizes)
    storage.check_requirements(DRIVERS, _needed_gb(kinds))
    with create_work_folder() as work_folder, ExitStack() as stack:
        servers = {}
        for kind in kinds:
            print_note(f"{kind.name}: filling the server that is copied by hand")
            servers[kind.name] = stack.enter_context(cold_copy.create_filled_server(work_folder, kind))
        for driver in DRIVERS:
            yield from _measure(driver, [kind for kind in kinds if _is_for(driver, kind)], servers, sizes)


def _measure(
    driver: str, kinds: list[ParentKind], servers: dict[str, PlainPostgres], sizes: Sizes
) -> Iterator[Promise]:
    image_gb = sum(4 + (2 + kind.clones) * kind.megabytes // 1024 for kind in kinds)
    with program.run_platform(driver, project_client.VARIABLES, image_gb) as platform, platform.client() as client:
        measured = [_parent(platform, client, kind, servers[kind.name]) for kind in kinds]
        for parent in measured:  # one run each is not counted: it loads files into the page cache
            parent.measure_branch()
            parent.times.clear()
        for ordered in rotate_rounds(measured):
            for parent in ordered:
                parent.measure_branch()
                parent.measure_copy()
        yield _build_promise(driver, measured, platform.storage_home.description)
        clients = [
            BranchClients(parent.project, parent.kind, sizes.probe_seconds, sizes.undisturbed_seconds)
            for parent in measured
        ]
        for ordered_clients in rotate_rounds(clients):
            for each in ordered_clients:
                each.run_round()
        for each in clients:
            each.measure_undisturbed()
        yield branch_latency.build_promise(driver, clients, platform.storage_home.description)


def _parent(platform: Program, client: httpx2.Client, kind: ParentKind, server: PlainPostgres) -> BranchedParent:
    print_note(f"{kind.name}: filling the parent on {platform.storage_home.driver}")
    project = BenchProject(platform, client, kind.name)
    asyncio.run(kind.fill(project.target))
    if kind.age:
        print_note(f"{kind.name}: aging the parent on {platform.storage_home.driver}")
        kind.age(lambda: project.create_branch(endpoint=False).wait_until_finished(), project.target)
    return BranchedParent(kind, project, server)


def _is_for(driver: str, kind: ParentKind) -> bool:
    """Return False for an aged parent on a driver that shares no blocks, where aging does not matter."""
    return driver in COPY_ON_WRITE or not kind.age


def _needed_gb(kinds: list[ParentKind]) -> float:
    """Return disk space for the parents by hand and on one driver, their WAL, remaining clones and copies."""
    gigabytes = [kind.megabytes / 1024 for kind in kinds]
    clones = sum(kind.clones * kind.megabytes / 1024 for kind in kinds)
    return sum(2 * (1.1 * each + 1) for each in gigabytes) + 2 * max(gigabytes) + clones


def _build_promise(driver: str, measured: list[BranchedParent], storage_description: str) -> Promise:
    small, largest = (
        measured[0],
        max((each for each in measured if each.kind.is_fresh), key=lambda each: each.kind.megabytes),
    )
    is_limited = driver in COPY_ON_WRITE
    times = f"in less than {GROWTH_LIMIT:g} times the time of {small.kind.name}"
    return Promise(
        name=f"branching {driver}",
        sentence=f"On {driver}, a branch of {largest.kind.name} created with the API returns its first row through the "
        f"gateway {times if is_limited else 'after a full copy of the parent'}.",
        measurements=tuple(figure for parent in measured for figure in _figures(parent)),
        ratios=(
            *(
                make_ratio(
                    f"{parent.kind.name} to {small.kind.name}",
                    _total(parent),
                    _total(small),
                    below=GROWTH_LIMIT if is_limited and parent is largest else None,
                )
                for parent in measured[1:]
            ),
            *(_to_copy(parent, is_limited=is_limited) for parent in measured),
        ),
        how=(
            project_client.CONFIGURATION,
            'POST /projects/{id}/branches {"endpoints": [{"type": "read_write"}]}, with a running parent; then '
            f"immediately psycopg: connect with the returned connection_uri, read a row; {ROUNDS} rounds",
            "after a checkpoint and a sync; both operations end before the branch is deleted",
            storage_description,
        ),
        baseline=(f"the same with a parent of {small.kind.name}; and by hand:", *cold_copy.describe_configuration()),
    )


def _figures(parent: BranchedParent) -> Iterator[Measurement]:
    yield from make_measurements(parent.kind.name, parent.times).values()
    yield make_measurements(f"{parent.kind.name}, by hand", parent.copy_times)[TOTAL]


def _total(parent: BranchedParent) -> Measurement:
    return make_measurements(parent.kind.name, parent.times)[TOTAL]


def _to_copy(parent: BranchedParent, *, is_limited: bool) -> Measurement:
    is_large = parent.kind.is_fresh and parent.kind.megabytes >= COPY_LIMIT_MB
    copied = make_measurements("by hand", parent.copy_times)[TOTAL]
    limit = 1.0 if is_limited and is_large else None
    return make_ratio(f"{parent.kind.name} to a copy by hand", _total(parent), copied, below=limit)

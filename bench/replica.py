"""A read replica of a running database returns its first row at once, whatever the size of the database.

The time is that of a user: `POST /projects/{id}/endpoints` with type `read_only`, then an immediate connection through
the gateway to its host, and a row of the branch.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench import parent_databases, program, project_client, standby_backup, storage
from bench.parent_databases import ParentKind
from bench.plain_postgres import PlainPostgres, create_work_folder
from bench.project_client import READ_ONLY, BenchProject
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bench.stopwatch import TOTAL, Stopwatch, Times, make_measurements
from bench.storage import COPY_ON_WRITE

DRIVERS = ("reflink", "btrfs+wal", "plain")
GROWTH_LIMIT = 1.5  # with copy-on-write: limit for a replica of the large database, to one of the small
ANSWERED, FIRST_ROW = "POST is answered", "connect and read a row"


@dataclass(slots=True)
class MeasuredPrimary:
    """A primary on the platform and its baseline server, and the durations of their replicas."""

    kind: ParentKind
    project: BenchProject
    plain_postgres: PlainPostgres
    times: Times = field(default_factory=lambda: defaultdict(list))
    standby_times: Times = field(default_factory=lambda: defaultdict(list))

    def measure_replica(self) -> None:
        self.project.execute_as_admin("checkpoint")
        os.sync()
        watch = Stopwatch(self.times)
        created = self.project.create_endpoint(READ_ONLY)
        watch.mark(ANSWERED)
        created.read_first_row(self.kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        created.delete()

    def measure_backup(self) -> None:
        os.sync()
        standby_backup.back_up_and_query(self.plain_postgres, self.kind, self.standby_times)

    @property
    def measurements(self) -> dict[str, Measurement]:
        return make_measurements(self.kind.name, self.times)

    @property
    def baseline(self) -> Measurement:
        return make_measurements(f"{self.kind.name}, by hand", self.standby_times)[TOTAL]


def measure(sizes: Sizes) -> Iterator[Promise]:
    kinds = [parent_databases.small_parent(), parent_databases.parent_of_size(sizes.replicated_mb)]
    storage.check_requirements(DRIVERS, 5 * (sizes.replicated_mb / 1024 + 2))
    with create_work_folder() as work_folder, ExitStack() as stack:
        servers = [stack.enter_context(standby_backup.create_filled_server(work_folder, kind)) for kind in kinds]
        for driver in DRIVERS:
            print_note(f"replicas on {driver}")
            yield _measure(driver, list(zip(kinds, servers, strict=True)))


def _measure(driver: str, kinds: list[tuple[ParentKind, PlainPostgres]]) -> Promise:
    with program.run_platform(driver, project_client.VARIABLES) as platform, platform.client() as client:
        measured = [MeasuredPrimary(kind, BenchProject(platform, client, kind.name), server) for kind, server in kinds]
        for primary in measured:
            asyncio.run(primary.kind.fill(primary.project.target))
            primary.measure_replica()  # one run is not counted: it loads files into the page cache
            primary.times.clear()
        for ordered in rotate_rounds(measured):
            for primary in ordered:
                primary.measure_replica()
                primary.measure_backup()
        return _build_promise(driver, measured, platform.storage_home.description)


def _build_promise(driver: str, measured: list[MeasuredPrimary], storage_description: str) -> Promise:
    small, large = measured
    is_limited = driver in COPY_ON_WRITE
    times = f"in less than {GROWTH_LIMIT:g} times the time of {small.kind.name}"
    return Promise(
        name=f"replica {driver}",
        sentence=f"On {driver}, a read replica of {large.kind.name} created with the API returns its first row through "
        f"the gateway {times if is_limited else 'after a full copy of the branch'}.",
        measurements=tuple(figure for each in measured for figure in (*each.measurements.values(), each.baseline)),
        ratios=(
            make_ratio(
                f"{large.kind.name} to {small.kind.name}",
                large.measurements[TOTAL],
                small.measurements[TOTAL],
                below=GROWTH_LIMIT if is_limited else None,
            ),
            *(make_ratio(f"{each.kind.name} to by hand", each.measurements[TOTAL], each.baseline) for each in measured),
        ),
        how=(
            project_client.CONFIGURATION,
            'POST /projects/{id}/endpoints {"endpoint": {"type": "read_only", "branch_id": …}}, its branch running; '
            f"then immediately psycopg: connect to its host through the gateway, read a row; {ROUNDS} rounds",
            "after a checkpoint and a sync; the replica is deleted before the next is created",
            storage_description,
        ),
        baseline=(
            f"the same with a branch of {small.kind.name}; and by hand:",
            *standby_backup.describe_configuration(),
        ),
    )

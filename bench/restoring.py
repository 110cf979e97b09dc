"""A restore to a random time takes as long for a large database as for a small one, after the same amount of writes.

The time is that of a user: `POST …/restore` of the default branch to a time within the last writes, until a new
connection through the gateway returns a row. Before each round both databases get the same writes, and the time is at
the same share of them. The baseline is the same procedure by hand: see `wal_replay`.
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

from bench import parent_databases, plain_postgres, program, project_client, storage, wal_replay
from bench.engine_home import connect
from bench.parent_databases import ParentKind
from bench.pgbench import ServerTarget
from bench.program import Program
from bench.project_client import ADDRESS, BenchProject
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import FULL, Sizes
from bench.stopwatch import TOTAL, Stopwatch, Times, make_measurements
from bench.storage import COPY_ON_WRITE
from bench.wal_replay import ArchivingServer, Backup

GROWTH_LIMIT = 1.5  # limit for the large database, to the small one
BY_HAND_LIMIT = 0.1  # limit for the large database, to the procedure by hand
RESTORED, FIRST_ROW = "restore finished", "connect and read a row"
_STEPS = 20  # number of transactions of the writes; the time is between two of them
_TABLE = "create table if not exists written (id bigserial primary key, filling text not null)"
_WRITE = "insert into written (filling) select repeat(md5(n::text), 30) from generate_series(1, {rows}) n"


@dataclass(slots=True)
class MeasuredDatabase:
    """A database on the platform and by hand, and the durations of its restores."""

    kind: ParentKind
    project: BenchProject
    archiving_server: ArchivingServer
    times: Times = field(default_factory=lambda: defaultdict(list))
    replay_times: Times = field(default_factory=lambda: defaultdict(list))

    def run_round(self, wal_mb: int, share: float) -> None:
        moment = asyncio.run(_write_wal(self.project.target, wal_mb, share))
        watch = Stopwatch(self.times)
        branch = f"{self.project.path}/branches/{self.project.creation_response['branch']['id']}"
        requested = {
            "source_branch_id": self.project.creation_response["branch"]["id"],
            "source_timestamp": moment.isoformat(),
            "preserve_under_name": f"before {time.time_ns()}",
        }
        self.project.platform.wait_until_finished(self.project.request("POST", f"{branch}/restore", requested))
        watch.mark(RESTORED)
        uri = self.project.creation_response["connection_uris"][0]["connection_uri"]
        project_client.read_first_row(f"{uri}&hostaddr={ADDRESS}", self.kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        self._delete_preserved_branch(requested["preserve_under_name"])

    def measure_replay(self, wal_mb: int, share: float) -> None:
        with plain_postgres.create_postgres(self.archiving_server.server.sockets.parent) as copy:
            backup = Backup(self.archiving_server, copy, self.replay_times)
            moment = asyncio.run(_write_wal(self.archiving_server.target, wal_mb, share))
            self.archiving_server.wait_until_archived()
            backup.restore(moment, self.kind)

    def _delete_preserved_branch(self, name: str) -> None:
        found = self.project.request("GET", f"{self.project.path}/branches?search={name.replace(' ', '%20')}")
        for branch in found["branches"]:
            response = self.project.request("DELETE", f"{self.project.path}/branches/{branch['id']}")
            if response["operations"]:
                self.project.platform.wait_until_finished(response)


def measure(sizes: Sizes) -> Iterator[Promise]:
    """Yield one promise for each driver that shares blocks; other drivers copy all data."""
    kinds = [parent_databases.small_parent(), parent_databases.parent_of_size(sizes.restored_mb)]
    storage.check_requirements(COPY_ON_WRITE, 6 * sizes.restored_mb / 1024 + 10)
    with plain_postgres.create_work_folder() as work_folder, ExitStack() as stack:
        servers = {}
        for kind in kinds:
            print_note(f"{kind.name}: filling the server that is restored by hand")
            servers[kind.name] = stack.enter_context(wal_replay.create_archiving_server(work_folder, kind))
        for driver in ("reflink", "btrfs+wal"):
            yield _measure(driver, kinds, servers, sizes)


def _measure(driver: str, kinds: list[ParentKind], servers: dict[str, ArchivingServer], sizes: Sizes) -> Promise:
    variables = {**project_client.VARIABLES, "BOUGH_RECOVERABLE_BRANCH_SECONDS": "0"}
    image_gb = 10 + 3 * sizes.restored_mb // 1024
    with program.run_platform(driver, variables, image_gb) as platform, platform.client() as client:
        measured = [_create_filled_database(platform, client, kind, servers[kind.name]) for kind in kinds]
        dice = random.Random(7)
        for each in measured:  # one run is not counted: it loads programs and files into memory
            each.run_round(sizes.restored_wal_mb, 0.5)
            each.times.clear()
        for ordered in rotate_rounds(measured):
            share = dice.random()
            for each in ordered:
                each.run_round(sizes.restored_wal_mb, share)
                each.measure_replay(sizes.restored_wal_mb, share)
        return _build_promise(driver, measured, sizes, platform.storage_home.description)


def _create_filled_database(
    platform: Program, client: httpx2.Client, kind: ParentKind, server: ArchivingServer
) -> MeasuredDatabase:
    print_note(f"{kind.name}: filling the database on {platform.storage_home.driver}")
    project = BenchProject(platform, client, kind.name)
    history = {"project": {"history_retention_seconds": 0}}
    project.request("PATCH", project.path, history)  # the initial data is not part of the measured history
    asyncio.run(kind.fill(project.target))
    project.request("PATCH", project.path, {"project": {"history_retention_seconds": 3600}})
    _wait_until_base(project)
    return MeasuredDatabase(kind, project, server)


async def _write_wal(target: ServerTarget, megabytes: int, share: float) -> datetime:
    """Write an amount in equal steps; return the time after the given share of them."""
    steps = max(1, min(_STEPS - 1, round(share * _STEPS)))
    moment = datetime.now(UTC)
    async with connect(target) as session:
        await session.execute(_TABLE)
        for step in range(_STEPS):
            if step == steps:
                moment = datetime.now(UTC)
                await asyncio.sleep(0.01)
            await session.execute(_WRITE.format(rows=megabytes * 1024 // _STEPS))
    return moment


def _wait_until_base(project: BenchProject) -> None:
    """Wait until the history starts after the initial data: earlier points are rejected."""
    requested = {"branch": {"parent_timestamp": "2000-01-01T00:00:00Z"}}
    deadline = time.monotonic() + program.OPERATION_TIMEOUT
    while "Try again in a minute" in project.expect_error("POST", f"{project.path}/branches", requested):
        if time.monotonic() > deadline:
            raise RuntimeError("no base was taken")
        time.sleep(0.1)


def _build_promise(driver: str, measured: list[MeasuredDatabase], sizes: Sizes, storage_description: str) -> Promise:
    small, large = measured
    is_full = sizes.restored_mb >= FULL.restored_mb
    return Promise(
        name=f"restoring {driver}",
        sentence=f"On {driver}, a restore of {large.kind.name} to a point takes less than {GROWTH_LIMIT:g} times "
        f"the time of {small.kind.name} after the same amount of writes"
        + (", and less than a tenth of the time by hand." if is_full else "."),
        measurements=tuple(figure for each in measured for figure in _figures(each)),
        ratios=(
            make_ratio(f"{large.kind.name} to {small.kind.name}", _total(large), _total(small), below=GROWTH_LIMIT),
            *(
                make_ratio(
                    f"{each.kind.name} to by hand",
                    _total(each),
                    make_measurements("by hand", each.replay_times)[TOTAL],
                    below=BY_HAND_LIMIT if each is large and is_full else None,
                )
                for each in measured
            ),
        ),
        how=(
            project_client.CONFIGURATION,
            f"POST …/branches/ID/restore to a time within the last {sizes.restored_wal_mb} MB of writes, its "
            f"compute running; until its operations finished, then psycopg: connect, read a row; {ROUNDS} rounds",
            storage_description,
        ),
        baseline=(f"the same with {small.kind.name}; and by hand:", *wal_replay.describe_configuration()),
    )


def _figures(each: MeasuredDatabase) -> Iterator[Measurement]:
    yield from make_measurements(each.kind.name, each.times).values()
    yield from make_measurements(f"{each.kind.name}, by hand", each.replay_times).values()


def _total(each: MeasuredDatabase) -> Measurement:
    return make_measurements(each.kind.name, each.times)[TOTAL]

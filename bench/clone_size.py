"""A branch takes little disk space: only what is written after its creation.

The used space of the image's file system is read after a sync: before the API creates the branch, when the branch
exists without an endpoint, and after queries through its endpoint. Files outside an image are counted one by one,
because other programs write to that disk too.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench import parent_databases, program, project_client, storage
from bench.parent_databases import ParentKind
from bench.project_client import ADDRESS, READ_WRITE, BenchProject
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note
from bench.sizes import Sizes
from bench.storage import COPY_ON_WRITE, DRIVERS, StorageHome
from bough.engine.local.durable_files import sync_filesystem
from bough.engine.local.images import thin_space
from bough.engine.local.images.image import Image

LIMIT = 0.05  # of the parent's size, with copy-on-write
PARENT, CLONED, STARTED = "its parent", "a branch", "… started, after a few queries"
SEGMENTS = 300  # more WAL than a server keeps: max_wal_size is 1 GB, a segment 4 MB
_STATEMENTS = (
    "select count(*) from rows_of_a_kb where id < 1000",
    "create table if not exists notes (id bigint primary key, words text)",
    "insert into notes select n, md5(n::text) from generate_series(1, 1000) n",
    "update rows_of_a_kb set filling = reverse(filling) where id < 100",
)
_BLOCK = 512  # the unit of st_blocks


@dataclass(slots=True)
class ClonedParent:
    storage_home: StorageHome
    project: BenchProject
    volume: str
    used_mb: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # megabytes

    def run_round(self) -> None:
        """Keep the branch: file systems free the space of a removed one at a time of their own."""
        self.project.execute_as_admin("checkpoint")
        before = self._used()
        branch = self.project.create_branch(endpoint=False)
        branch.wait_until_finished()
        self.used_mb[CLONED].append((self._used() - before) / 1024**2)
        endpoint = self.project.create_endpoint(READ_WRITE, branch.id)
        with psycopg.connect(f"{endpoint.uri}&hostaddr={ADDRESS}", autocommit=True) as session:
            for statement in _STATEMENTS:
                session.execute(statement.encode())
        self.project.execute_as_admin("checkpoint", endpoint=endpoint.id)
        self.used_mb[STARTED].append((self._used() - before) / 1024**2)
        self.used_mb[PARENT].append(_bytes_in(self.storage_home.volumes_folder / self.volume / "data") / 1024**2)
        endpoint.delete()

    def _used(self) -> int:
        sync_filesystem(self.storage_home.volumes_folder)
        if self.storage_home.driver == "plain":
            return _bytes_in(self.storage_home.volumes_folder)
        status = os.statvfs(self.storage_home.volumes_folder)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize - self._withheld()
        return used + _bytes_in(self.storage_home.home / "pg_wal")

    def _withheld(self) -> int:
        image = Image.load(self.storage_home.home)
        return thin_space.measure_withheld(image) if image else 0

    def make_measurement(self, what: str) -> Measurement:
        return Measurement(name=f"{self.storage_home.driver}: {what}", unit="MB", samples=tuple(self.used_mb[what]))


def measure(sizes: Sizes) -> Iterator[Promise]:
    storage.check_requirements(DRIVERS, (1 + ROUNDS) * (1.2 * sizes.cloned_mb / 1024 + 1))
    kind = parent_databases.parent_of_size(sizes.cloned_mb)
    yield _build_promise(kind, [_measure(driver, kind) for driver in DRIVERS])


def _measure(driver: str, kind: ParentKind) -> ClonedParent:
    print_note(f"filling the parent on {driver}")
    image_gb = 4 + 2 * kind.megabytes // 1024
    with program.run_platform(driver, project_client.VARIABLES, image_gb) as platform, platform.client() as client:
        project = BenchProject(platform, client, kind.name)
        (volume,) = platform.list_postmasters()
        parent = ClonedParent(platform.storage_home, project, volume)
        asyncio.run(kind.fill(project.target))
        # Recycled segments would be removed one by one with every branch and hide the space that it takes.
        project.execute_as_admin(*("checkpoint", "select pg_switch_wal()") * SEGMENTS)
        for number in range(ROUNDS):
            print_note(f"round {number + 1} of {ROUNDS}")
            parent.run_round()
    return parent


def _bytes_in(folder: Path) -> int:
    """Return disk space in bytes; files may disappear meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(f"{parent}/{name}").st_blocks * _BLOCK
            except FileNotFoundError:
                continue
    return total


def _build_promise(kind: ParentKind, measured: list[ClonedParent]) -> Promise:
    return Promise(
        name="clone_size",
        sentence=f"With copy-on-write, a branch takes less than {LIMIT:g} of the disk space of its parent.",
        measurements=tuple(parent.make_measurement(what) for parent in measured for what in (PARENT, CLONED, STARTED)),
        ratios=tuple(
            make_ratio(
                f"{parent.storage_home.driver}: {what} to its parent",
                parent.make_measurement(what),
                parent.make_measurement(PARENT),
                below=LIMIT if parent.storage_home.driver in COPY_ON_WRITE else None,
            )
            for parent in measured
            for what in (CLONED, STARTED)
        ),
        how=(
            project_client.CONFIGURATION,
            f"statvfs of the image after syncfs; {ROUNDS} times POST /projects/{{id}}/branches with a running parent "
            f"of {kind.name}, then POST /projects/{{id}}/endpoints",
            "outside an image: the blocks of all files",
            "queries: " + "; ".join(_STATEMENTS),
            *(parent.storage_home.description for parent in measured),
        ),
        baseline=("the parent's own data directory: the blocks of all its files",),
    )

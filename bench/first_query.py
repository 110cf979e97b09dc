"""A new project answers its first query sooner than a Postgres server created by hand.

Bough: `POST /projects`, wait for its operations, read them, connect through the compute's socket, query. Warm: with a
pool that is full before each round. Cold: without a pool. By hand: `initdb`, start, connect, query. The baseline
creates no role, database or password and syncs nothing, so it does less than Bough.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bench import plain_postgres, program, storage
from bench.program import Program
from bench.project_client import elapsed_milliseconds
from bench.promise import Promise, make_ratio
from bench.rounds import print_note, rotate_rounds
from bench.sizes import Sizes
from bench.stopwatch import TOTAL, Stopwatch, Times, make_measurements

ROUNDS = 7
WARM, COLD = "warm", "cold"
LIMITS = {
    "reflink": {WARM: 0.1, COLD: 0.25},
    "btrfs+wal": {WARM: 0.15, COLD: 0.3},
    "plain": {WARM: 0.15, COLD: 0.5},
}


@dataclass(slots=True)
class NewProjects:
    """New projects on one platform and their durations."""

    kind: str
    platform: Program
    client: httpx2.Client
    times: Times = field(default_factory=lambda: defaultdict(list))

    @property
    def spares(self) -> int:
        return self.platform.settings.warm_pool if self.kind == WARM else 0

    def measure_one(self) -> None:
        self.platform.wait_until_idle(self.client, self.spares)
        os.sync()  # unwritten data of others must not be part of our sync
        watch = Stopwatch(self.times)
        created = program.create_project(self.client, "first query")
        watch.mark("POST returned")
        self.platform.wait_until_finished(created)
        watch.mark("operations finished")
        program.get_last_operation(self.client, created)
        watch.mark("last operation read")
        asyncio.run(_check_first_query(self.platform.connect(created)))
        watch.mark("connect and select")
        watch.stop()
        self._note(created)
        self.client.delete(f"/projects/{created['project']['id']}").raise_for_status()
        self.platform.wait_until_idle(self.client, self.spares)

    def _note(self, created: dict[str, Any]) -> None:
        """Record the durations that the operations report."""
        clone, start = program.wait_for_operations(self.client, created, pause=0.002)
        self.times["… from POST until the volume exists"].append(
            elapsed_milliseconds(clone["created_at"], clone["updated_at"])
        )
        self.times["… until its compute runs, with roles and databases"].append(
            elapsed_milliseconds(clone["updated_at"], start["updated_at"])
        )


def measure(_: Sizes) -> Iterator[Promise]:
    for driver in LIMITS:
        storage.check_requirements((driver,), 2 * 2)
        print_note(f"new projects on {driver}")
        yield _measure(driver)


def _measure(driver: str) -> Promise:
    by_hand: Times = defaultdict(list)
    with ExitStack() as stack:
        work_folder = stack.enter_context(plain_postgres.create_work_folder())
        variants = [_start_variant(stack, driver, kind) for kind in (WARM, COLD)]
        for variant in variants:  # one run each is not counted: it loads files into the page cache
            variant.measure_one()
            variant.times.clear()
        _make_by_hand(work_folder, defaultdict(list))
        for ordered in rotate_rounds(variants, ROUNDS):
            for variant in ordered:
                variant.measure_one()
            _make_by_hand(work_folder, by_hand)
    return _build_promise(driver, variants, by_hand)


def _start_variant(stack: ExitStack, driver: str, kind: str) -> NewProjects:
    variables = {} if kind == WARM else {"BOUGH_WARM_POOL": "0"}
    platform = stack.enter_context(program.run_platform(driver, variables))
    return NewProjects(kind, platform, stack.enter_context(platform.client()))


def _make_by_hand(work_folder: Path, times: Times) -> None:
    with plain_postgres.create_postgres(work_folder) as postgres:
        os.sync()
        watch = Stopwatch(times)
        postgres.initdb()
        watch.mark("initdb")
        postgres.start()
        watch.mark("start")
        asyncio.run(_check_first_query(postgres.connect()))
        watch.mark("connect and select")
        watch.stop()


async def _check_first_query(connecting: Coroutine[Any, Any, Any]) -> None:
    connection = await connecting
    if await connection.fetchval("select 1") != 1:
        raise RuntimeError("the first query was not answered with 1")
    connection.terminate()


def _build_promise(driver: str, variants: list[NewProjects], by_hand: Times) -> Promise:
    measured = {variant.kind: make_measurements(variant.kind, variant.times) for variant in variants}
    plain = make_measurements("by hand", by_hand)
    limits = LIMITS[driver]
    return Promise(
        name=f"first_query {driver}",
        sentence=f"On {driver}, a new project answers its first query in less than {limits[WARM]:g} of the time of "
        f"initdb, start and a first query by hand, and without the warm pool in less than {limits[COLD]:g}.",
        measurements=tuple(figure for times in (*measured.values(), plain) for figure in times.values()),
        ratios=tuple(
            make_ratio(f"{kind} to by hand", times[TOTAL], plain[TOTAL], below=limits[kind])
            for kind, times in measured.items()
        ),
        how=(
            f"POST /projects, wait for its operations, connect through the compute's socket, select; {ROUNDS} rounds",
            f"{WARM}: with a pool of {variants[0].spares}, full before each round; {COLD}: with BOUGH_WARM_POOL=0",
            "each round also creates one by hand; all start with a synced disk, and only Bough syncs what it creates",
            variants[0].platform.storage_home.description,
        ),
        baseline=plain_postgres.describe_configuration(),
    )

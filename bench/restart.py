"""Control restarts in less than 3 s with 1,000 projects, without effect on the 20 running computes.

The time is that of the whole command `bough restart`, which returns when the platform is ready, and of one request. A
session that was opened before the first restart is queried after each.
"""

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from bench import population, program
from bench.program import Program
from bench.promise import Check, Measurement, Promise, make_ratio

PROJECTS, RUNNING = 1_000, 20
ROUNDS = 5
LIMIT = 3.0


@dataclass(slots=True)
class RestartTimes:
    """Restart times of one platform, in seconds."""

    platform: Program
    total_seconds: list[float] = field(default_factory=list)
    reported_seconds: list[float] = field(default_factory=list)  # reported by the command: from the signal until ready

    def measure_one(self) -> None:
        started_at = time.monotonic()
        output = self.platform.run_command("restart")
        with self.platform.client() as client:
            client.get("/projects").raise_for_status()
        self.total_seconds.append(time.monotonic() - started_at)
        self.reported_seconds.append(float(re.findall(r"after ([0-9.]+) s", output)[0]))


def measure() -> Promise:
    with ExitStack() as stack:
        full = RestartTimes(stack.enter_context(program.run_platform()))
        empty = RestartTimes(stack.enter_context(program.run_platform()))
        first = _populate(full.platform)
        before = full.platform.list_postmasters()
        untouched = [len(before) == RUNNING]
        session = stack.enter_context(asyncio.Runner())
        is_open = _open_session(session, full.platform, first)
        for _ in range(ROUNDS):
            full.measure_one()
            untouched.append(full.platform.list_postmasters() == before and is_open())
            empty.measure_one()
    return _build_promise(full, empty, all(untouched))


def _populate(platform: Program) -> dict[str, Any]:
    """Create the running projects with the API and the others as rows; return the first project."""
    with platform.client() as client:
        created = [program.create_project(client, f"running {number}") for number in range(RUNNING)]
        for each in created:
            program.wait_for_operations(client, each, pause=0.05)
    population.insert_projects(platform.settings, PROJECTS - RUNNING)
    return created[0]


def _open_session(runner: asyncio.Runner, platform: Program, created: dict[str, Any]) -> Callable[[], bool]:
    """Open a session in a compute; return a function that tells whether it still works."""
    connection = runner.run(platform.connect(created))

    def is_open() -> bool:
        try:
            return bool(runner.run(connection.fetchval("select 1")) == 1)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False

    return is_open


def _build_promise(full: RestartTimes, empty: RestartTimes, untouched: bool) -> Promise:
    ours = Measurement(
        name=f"{PROJECTS:,} projects, {RUNNING} running", unit="s", samples=tuple(full.total_seconds), below=LIMIT
    )
    bare = Measurement(name="empty store", unit="s", samples=tuple(empty.total_seconds))
    return Promise(
        name="restart",
        sentence=f"Control is ready again in less than {LIMIT:g} s with {PROJECTS:,} projects, {RUNNING} "
        "of them running; computes are not affected.",
        measurements=(
            ours,
            Measurement(name="… of it from the signal until ready", unit="s", samples=tuple(full.reported_seconds)),
            bare,
        ),
        ratios=(make_ratio("full to empty store", ours, bare),),
        checks=(Check(name=f"the {RUNNING} postmasters and an open session survive every restart", true=untouched),),
        how=(
            f"`bough restart --home H`, from its start until it returned and GET /projects succeeded; {ROUNDS} rounds",
            f"{RUNNING} projects created by POST /projects, {PROJECTS - RUNNING} inserted into the store",
        ),
        baseline=(
            "`bough restart --home H` on a second platform with an empty store, directly afterwards in each round",
        ),
    )

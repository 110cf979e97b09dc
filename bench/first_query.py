"""A new project answers its first query sooner than a Postgres made by hand.

Ours: `POST /projects`, wait for its operations to finish, connect by the compute's socket, ask. By
hand: `initdb`, start, connect, ask. By hand there is no role, database or password to make, and
nothing is synced to disk: the baseline does less than we do.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2

from bench import by_hand, program
from bench.program import Program
from bench.promise import Figure, Promise, ratio

ROUNDS = 7
LOOK = 0.002  # seconds between two looks
PATIENCE = 60.0  # seconds

TOTAL = "in all"
Times = dict[str, list[float]]  # what → milliseconds, round by round


class _Stopwatch:
    """Milliseconds between marks, and in all."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self._began = self._last = time.perf_counter()

    def mark(self, what: str) -> None:
        now = time.perf_counter()
        self._times[what].append((now - self._last) * 1e3)
        self._last = now

    def stop(self) -> None:
        self._times[TOTAL].append((time.perf_counter() - self._began) * 1e3)


def measure() -> Promise:
    ours: Times = defaultdict(list)
    hands: Times = defaultdict(list)
    with program.running() as platform, platform.client() as client, by_hand.workplace() as place:
        _create(platform, client, defaultdict(list))  # once each without counting: files come into the page cache
        _make_by_hand(place, defaultdict(list))
        for _ in range(ROUNDS):
            _create(platform, client, ours)
            _make_by_hand(place, hands)
    return _promise(ours, hands)


def _create(platform: Program, client: httpx2.Client, times: Times) -> None:
    os.sync()  # our sync shall not pay for what others have left unwritten
    watch = _Stopwatch(times)
    made = program.create_project(client, "first query")
    watch.mark("POST is answered")
    _until((platform.socket_folder(made) / ".s.PGSQL.5432").exists)  # a look that costs control nothing
    clone, start = program.finished(client, made, pause=LOOK)
    watch.mark("its operations are finished")
    asyncio.run(_ask(platform.connect(made)))
    watch.mark("connect and select")
    watch.stop()
    times["… of these: the clone"].append(clone["total_duration_ms"])
    times["… and: start, roles, databases"].append(_milliseconds(clone["updated_at"], start["updated_at"]))
    client.delete(f"/projects/{made['project']['id']}").raise_for_status()
    _until(lambda: not platform.postmasters())


def _make_by_hand(place: Path, times: Times) -> None:
    with by_hand.postgres(place) as postgres:
        os.sync()
        watch = _Stopwatch(times)
        postgres.initdb()
        watch.mark("initdb")
        postgres.start()
        watch.mark("start")
        asyncio.run(_ask(postgres.connect()))
        watch.mark("connect and select")
        watch.stop()


async def _ask(connecting: Coroutine[Any, Any, Any]) -> None:
    connection = await connecting
    if await connection.fetchval("select 1") != 1:
        raise RuntimeError("the first query was not answered with 1")
    connection.terminate()


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise RuntimeError(f"a compute did not come or go within {PATIENCE:g} s")
        time.sleep(LOOK)


def _milliseconds(first: str, last: str) -> float:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds() * 1e3


def _figures(who: str, times: Times) -> dict[str, Figure]:
    return {
        what: Figure(name=f"{who}: {what}", unit="ms", samples=tuple(samples))
        for what, samples in sorted(times.items(), key=lambda item: item[0] != TOTAL)
    }


def _promise(ours: Times, hands: Times) -> Promise:
    project, plain = _figures("POST /projects", ours), _figures("by hand", hands)
    return Promise(
        name="first_query",
        sentence="A new project answers its first query sooner than initdb, start and a first query take by hand.",
        figures=(*project.values(), *plain.values()),
        ratios=(ratio("a new project to a Postgres by hand", project[TOTAL], plain[TOTAL], below=1.0),),
        how=(
            f"POST /projects, its operations finished, connect by the compute's socket, select; {ROUNDS} rounds",
            "each round also makes one by hand; both begin on a synced disk, and only ours syncs what it made",
        ),
        baseline=by_hand.configuration(),
    )

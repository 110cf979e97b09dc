"""An instant database returns its first row in less than three times the time of a connection to a running endpoint.

The time is that of a caller: `POST /api/v1/database`, then a connection with the returned pooled string, with TLS and
SCRAM, and a row. The baseline is the connection and the row alone, on a running database. Prepared: requests arrive
slower than databases are prepared. Drained: a platform without prepared databases and without a warm pool, so each
database is cloned and started on request. Sustained: several callers without a pause.
"""

import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import httpx2
import psycopg

from bench import program
from bench.program import Program
from bench.promise import Measurement, Promise, make_ratio, percentile
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes

LIMIT = 3.0
CALLERS = 4
_TIMEOUT, _POLL_INTERVAL, _STABLE_FOR = 60.0, 0.05, 0.3  # seconds
_NO_LIMITS = {
    "BOUGH_INSTANT_PER_HOUR": "1000000000",
    "BOUGH_INSTANT_PER_HOUR_AND_ADDRESS": "1000000000",
    "BOUGH_RATE_PER_MINUTE_AND_ADDRESS": "1000000000",
}
_NO_POOLS = {"BOUGH_INSTANT_POOL": "0", "BOUGH_WARM_POOL": "0"}
_READY = """
    select count(*) from projects join endpoints on endpoints.project_id = projects.id
     where org_id = 'org-unclaimed-databases' and projects.deleted_at is null
       and endpoints.state = 'active' and suspend_timeout_seconds = -1
"""


@dataclass
class InstantPlatform:
    """A platform that creates instant databases."""

    name: str
    platform: Program
    client: httpx2.Client
    prepared_count: int  # prepared databases before each call
    spare_count: int  # spare computes before each call
    times: list[float] = field(default_factory=list)

    def create(self) -> str:
        response = self.client.post("/database", json={"ref": "bench"}).raise_for_status()
        return f"{response.json()['connection_string']}&hostaddr=127.0.0.1"

    def measure_once(self) -> float:
        self._wait_until_ready()
        started_at = time.monotonic()
        read_first_row(self.create())
        return (time.monotonic() - started_at) * 1000

    def run_round(self, count: int) -> float:
        """Return the median of several calls."""
        times = [self.measure_once() for _ in range(count)]
        self.times += times
        return percentile(times, 0.5)

    def measure_rate(self, seconds: float) -> float:
        until = time.monotonic() + seconds

        def call(_number: int) -> int:
            created = 0
            while time.monotonic() < until:
                read_first_row(self.create())
                created += 1
            return created

        with ThreadPoolExecutor(CALLERS) as callers:
            started_at = time.monotonic()
            created = sum(callers.map(call, range(CALLERS)))
            return created / (time.monotonic() - started_at)

    def _wait_until_ready(self) -> None:
        """Wait until both pools have been full for a moment, so that earlier work is not measured."""
        deadline = time.monotonic() + _TIMEOUT
        since = time.monotonic()
        with closing(sqlite3.connect(f"file:{self.platform.settings.store_file}?mode=ro", uri=True)) as store:
            while time.monotonic() - since < _STABLE_FOR:
                is_full = store.execute(_READY).fetchone()[0] == self.prepared_count
                if not is_full or not self.platform.is_refilled(self.client, self.spare_count):
                    since = time.monotonic()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no database was prepared within {_TIMEOUT:g} s")
                time.sleep(_POLL_INTERVAL)


def read_first_row(uri: str) -> None:
    with psycopg.connect(uri, autocommit=True) as session:
        if session.execute("select 1").fetchone() != (1,):
            raise RuntimeError("the first query was not answered with 1")


def measure(sizes: Sizes) -> Iterator[Promise]:
    with ExitStack() as stack:
        prepared = _start_platform(stack, "prepared", {}, waiting=2)
        drained = _start_platform(stack, "drained", _NO_POOLS, waiting=0)
        running = prepared.create()  # from now on databases are prepared
        read_first_row(running)
        alone: list[float] = []
        samples: dict[str, list[float]] = {"alone": [], "prepared": [], "drained": []}
        for ordered in rotate_rounds((prepared, drained)):
            alone_now = [_timed(running) for _ in range(sizes.instant_calls)]
            alone += alone_now
            samples["alone"].append(percentile(alone_now, 0.5))
            for server in ordered:
                samples[server.name].append(server.run_round(sizes.instant_calls))
        print_note("several callers at once")
        rates = [prepared.measure_rate(sizes.instant_seconds) for _ in range(ROUNDS)]
        yield _build_promise(samples, prepared, drained, rates, alone)


def _start_platform(stack: ExitStack, name: str, variables: dict[str, str], waiting: int) -> InstantPlatform:
    """Start a platform. Each of its two pools holds `waiting` entries."""
    platform = stack.enter_context(program.run_platform(variables={**_NO_LIMITS, **variables}))
    client = httpx2.Client(base_url=f"http://127.0.0.1:{platform.port}/api/v1", timeout=60)
    return InstantPlatform(name, platform, stack.enter_context(client), prepared_count=waiting, spare_count=waiting)


def _timed(uri: str) -> float:
    started_at = time.monotonic()
    read_first_row(uri)
    return (time.monotonic() - started_at) * 1000


def _build_promise(
    samples: dict[str, list[float]],
    prepared: InstantPlatform,
    drained: InstantPlatform,
    rates: list[float],
    alone: list[float],
) -> Promise:
    connect, prepared_time, cold = (
        Measurement(name=name, unit="ms", samples=tuple(samples[key]))
        for key, name in (
            ("alone", "connect and select, p50"),
            ("prepared", "POST to first row, prepared, p50"),
            ("drained", "POST to first row, drained, p50"),
        )
    )
    return Promise(
        name="instant",
        sentence=f"An instant database returns its first row within {LIMIT:g} times the time of a connection to a "
        "running endpoint.",
        measurements=(
            connect,
            prepared_time,
            cold,
            _make_p99("connect and select, p99", alone),
            _make_p99("POST to first row, prepared, p99", prepared.times),
            _make_p99("POST to first row, drained, p99", drained.times),
            Measurement(name=f"created per second, {CALLERS} callers", unit="/s", samples=tuple(rates)),
        ),
        ratios=(
            make_ratio("prepared to connect alone", prepared_time, connect, below=LIMIT),
            make_ratio("drained to connect alone", cold, connect),
        ),
        how=(
            "POST /api/v1/database on an open connection; then libpq: TLS, SCRAM with channel binding, select 1",
            "with the pooled string; prepared: both pools have two before each call, and no operation is open",
            "drained: with BOUGH_INSTANT_POOL=0 and BOUGH_WARM_POOL=0",
            f"the sample is the p50 of a round, {ROUNDS} rounds; p99 over all calls",
        ),
        baseline=("libpq: connect with the pooled string of a running database, select 1, disconnect",),
    )


def _make_p99(name: str, times: list[float]) -> Measurement:
    """Use the percentile over all calls, the same in each round."""
    return Measurement(name=name, unit="ms", samples=(percentile(times, 0.99),) * ROUNDS)

"""A suspended endpoint returns its first row in less than twice the time of a bare `postgres`.

The time is that of a client: from the first byte of its connection, with TLS and SCRAM, through the gateway, the wake
and the start of the compute, to the row. The baseline is started by hand and queried through its socket.
"""

import asyncio
import ssl
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx2

from bench import plain_postgres, program
from bench.plain_postgres import PlainPostgres
from bench.program import Program
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, rotate_rounds
from bench.sizes import Sizes

LIMIT = 2.0
WAKES = 3  # per round; their median is the sample
_POLL_SECONDS = 0.02


class SuspendedEndpoint:
    """An endpoint that is suspended and woken."""

    def __init__(self, platform: Program, client: httpx2.Client) -> None:
        created = program.create_project(client, "suspended")
        program.wait_for_operations(client, created, pause=0.05)
        self._client = client
        self._path = f"/projects/{created['project']['id']}/endpoints/{created['endpoints'][0]['id']}"
        self._uri = urlsplit(created["connection_uris"][0]["connection_uri"])
        self._port = platform.gateway_port
        self.times: list[float] = []

    def measure_wake(self) -> float:
        self._client.post(f"{self._path}/suspend").raise_for_status()
        while self._client.get(self._path).raise_for_status().json()["endpoint"]["current_state"] != "idle":
            time.sleep(_POLL_SECONDS)
        time.sleep(0.3)
        return asyncio.run(self._first_row())

    async def _first_row(self) -> float:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        endpoint = self._path.rsplit("/", 1)[1]
        started_at = time.monotonic()
        session = await asyncpg.connect(
            host="127.0.0.1",
            port=self._port,
            user=self._uri.username,
            password=self._uri.password,
            database=self._uri.path[1:],
            ssl=context,
            server_settings={"options": f"endpoint={endpoint}"},
        )
        await session.fetchval("select 1")
        durations = time.monotonic() - started_at
        await session.close()
        return durations


class BarePostgres:
    def __init__(self, postgres: PlainPostgres) -> None:
        self._postgres = postgres
        self.times: list[float] = []

    def measure_wake(self) -> float:
        return asyncio.run(self._first_row())

    async def _first_row(self) -> float:
        started_at = time.monotonic()
        self._postgres.start()
        session = await self._postgres.connect()
        await session.fetchval("select 1")
        durations = time.monotonic() - started_at
        await session.close()
        self._postgres.stop()
        return durations


def measure(_sizes: Sizes) -> Iterator[Promise]:
    with (
        program.run_platform() as platform,
        platform.client() as client,
        plain_postgres.create_work_folder() as work_folder,
        plain_postgres.create_postgres(work_folder) as postgres,
    ):
        postgres.initdb()
        suspended_endpoint, bare = SuspendedEndpoint(platform, client), BarePostgres(postgres)
        both: list[Any] = [suspended_endpoint, bare]
        for ordered in rotate_rounds(both):
            for each in ordered:
                each.times.append(sorted(each.measure_wake() for _ in range(WAKES))[WAKES // 2])
        yield _build_promise(suspended_endpoint, bare)


def _build_promise(suspended_endpoint: SuspendedEndpoint, bare: BarePostgres) -> Promise:
    ours = Measurement(name="wake to first row", unit="ms", samples=tuple(s * 1000 for s in suspended_endpoint.times))
    by_itself = Measurement(name="bare start to first row", unit="ms", samples=tuple(s * 1000 for s in bare.times))
    return Promise(
        name="wake",
        sentence="A suspended endpoint returns its first row in less than twice the time of a bare postgres.",
        measurements=(ours, by_itself),
        ratios=(make_ratio("wake to bare start", ours, by_itself, below=LIMIT),),
        how=(
            "POST …/suspend, wait until it is idle; then asyncpg: connect to the gateway with TLS and SCRAM, select 1",
            f"the sample of a round is the median of {WAKES}; {ROUNDS} rounds",
        ),
        baseline=plain_postgres.describe_configuration()[1:],
    )

"""Reading a page of projects costs the same with 1,000 and with 20,000 projects in the store.

Two platforms run at the same time, one with a small and one with a large store. Both control processes run on the same
core; the load comes from the other core and alternates between them within every round. A bare FastAPI route under the
same load shows the cost of any response.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import httpx2

from bench import bare_fastapi, load, machine, population, program
from bench.load import LoadResult, RequestTarget
from bench.machine import Cores
from bench.program import Program
from bench.promise import Measurement, Promise, make_ratio, percentile

SMALL, LARGE = 1_000, 20_000
ROUNDS = 7
CONNECTIONS = 16
SLICES, SLICE_SECONDS = 4, 0.25  # the servers alternate within a round, so that noise affects all of them
QUIET_SECONDS, WARM_SECONDS = 1.0, 0.5
MOST_GROWTH = 1.15  # accepted ratio of two equal costs on a noisy machine

FIRST_SMALL, FIRST_LARGE, MIDDLE_LARGE, BARE = "first of 1,000", "first of 20,000", "middle of 20,000", "bare route"


@dataclass(slots=True)
class MeasuredServer:
    """A target, its process, and its measurements round by round."""

    target: RequestTarget
    pid: int
    per_second: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # microseconds of CPU per response
    p50: list[float] = field(default_factory=list)  # milliseconds
    p99: list[float] = field(default_factory=list)
    load_share: list[float] = field(default_factory=list)  # share of its core that the load generator used
    _busy: LoadResult = field(default_factory=lambda: LoadResult(0.0))  # of the current round
    _used: float = 0.0  # CPU seconds of the current round

    def begin_round(self) -> None:
        self._busy = LoadResult(0.0)
        self._used = 0.0

    def run_slice(self) -> None:
        """Measure throughput with many connections."""
        before = machine.cpu_seconds(self.pid)
        self._busy += load.run_load(self.target, connections=CONNECTIONS, seconds=SLICE_SECONDS)
        self._used += machine.cpu_seconds(self.pid) - before

    def end_round(self) -> None:
        """Measure latency with one connection."""
        quiet = load.run_load(self.target, connections=1, seconds=QUIET_SECONDS).latencies
        self.p50.append(percentile(quiet, 0.50) * 1e3)
        self.p99.append(percentile(quiet, 0.99) * 1e3)
        self.per_second.append(self._busy.per_second)
        self.load_share.append(self._busy.own_cpu / self._busy.seconds)
        self.cpu.append(self._used / len(self._busy.latencies) * 1e6)

    def make_measurement(self, what: str, unit: str, samples: Sequence[float]) -> Measurement:
        return Measurement(name=f"{self.target.name}: {what}", unit=unit, samples=tuple(samples))

    @property
    def throughput(self) -> Measurement:
        return self.make_measurement("responses per second", "/s", self.per_second)

    @property
    def cpu_cost(self) -> Measurement:
        return self.make_measurement("CPU per response", "µs", self.cpu)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (
            self.throughput,
            self.cpu_cost,
            self.make_measurement("p50", "ms", self.p50),
            self.make_measurement("p99", "ms", self.p99),
        )


def measure() -> Promise:
    cores = Cores.of_this_machine()
    with _servers() as servers:
        for server in servers.values():
            machine.pin(server.pid, cores.server)
        with machine.pinned(cores.load):
            for server in servers.values():
                load.run_load(server.target, connections=CONNECTIONS, seconds=WARM_SECONDS)
            for _ in range(ROUNDS):
                _one_round(list(servers.values()))
    return _build_promise(servers, cores)


def _one_round(servers: list[MeasuredServer]) -> None:
    for server in servers:
        server.begin_round()
    for _ in range(SLICES):
        for server in servers:
            server.run_slice()
    for server in servers:
        server.end_round()


@contextmanager
def _servers() -> Iterator[dict[str, MeasuredServer]]:
    with ExitStack() as stack:
        small, large = (stack.enter_context(_run_filled_platform(count)) for count in (SMALL, LARGE))
        port = program.find_free_port()
        bare_pid = stack.enter_context(bare_fastapi.run_server(port))
        middle = f"/api/v2/projects?cursor={_middle(large)}"
        yield {
            FIRST_SMALL: MeasuredServer(_target(FIRST_SMALL, small, "/api/v2/projects"), small.control_pid),
            FIRST_LARGE: MeasuredServer(_target(FIRST_LARGE, large, "/api/v2/projects"), large.control_pid),
            MIDDLE_LARGE: MeasuredServer(_target(MIDDLE_LARGE, large, middle), large.control_pid),
            BARE: MeasuredServer(RequestTarget(name=BARE, port=port, path="/bare"), bare_pid),
        }


@contextmanager
def _run_filled_platform(count: int) -> Iterator[Program]:
    with program.run_platform() as platform:
        population.insert_projects(platform.settings, count)
        yield platform


def _target(name: str, platform: Program, path: str) -> RequestTarget:
    return RequestTarget(name=name, port=platform.port, path=path, key=platform.key)


def _middle(platform: Program) -> str:
    """Return the cursor in the middle of the large store, found by following cursors as a client does."""
    cursor, page = "", 400
    with platform.client() as client:
        for _ in range(LARGE // 2 // page):
            cursor = _next(client, {"limit": str(page), **({"cursor": cursor} if cursor else {})})
    return cursor


def _next(client: httpx2.Client, parameters: dict[str, str]) -> str:
    response = client.get("/projects", params=parameters).raise_for_status()
    return str(response.json()["pagination"]["cursor"])


def _build_promise(servers: dict[str, MeasuredServer], cores: Cores) -> Promise:
    small, large, middle, plain = (servers[name] for name in (FIRST_SMALL, FIRST_LARGE, MIDDLE_LARGE, BARE))
    busiest = max(share for server in servers.values() for share in server.load_share)
    return Promise(
        name="api_reads",
        sentence=f"A page of GET /projects costs the same with {SMALL:,} and with {LARGE:,} projects in the store.",
        measurements=tuple(figure for server in servers.values() for figure in server.measurements),
        ratios=(
            make_ratio(
                "responses per second, 1,000 to 20,000 projects", small.throughput, large.throughput, below=MOST_GROWTH
            ),
            make_ratio("CPU per response, 20,000 to 1,000 projects", large.cpu_cost, small.cpu_cost, below=MOST_GROWTH),
            make_ratio(
                "responses per second, first to middle page", large.throughput, middle.throughput, below=MOST_GROWTH
            ),
            make_ratio("responses per second, bare route to a page", plain.throughput, large.throughput),
        ),
        how=(
            f"`bough up` twice, SQLite stores, rate limits raised; every server pinned to core {cores.server}, "
            f"the load to core {cores.load}",
            f"GET /api/v2/projects, the default page of 10, keep-alive; {ROUNDS} rounds, the servers alternating",
            f"responses and CPU: {CONNECTIONS} connections, {SLICES} slices of {SLICE_SECONDS} s; "
            f"p50, p99: 1 connection for {QUIET_SECONDS} s",
            f"the load generator used at most {busiest:.0%} of its core",
        ),
        baseline=bare_fastapi.CONFIGURATION,
    )

"""The speed of pooling: the same Postgres through PgBouncer and through the pooled host, alternating.

Both use the same number of server connections in transaction mode. Measures statements per second in the three
query modes, new connections per second, and the memory of idle clients. For a PgBouncer that does not support
prepared statements, those are compared with direct TLS. PgBouncer does not reset server connections between clients
by default, as the gateway always does, so a second PgBouncer is configured to do that.
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import gateway_workers, idle_connections, pgbouncer, plain_postgres, tls_postgres
from bench.plain_postgres import PlainPostgres
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bench.tls_postgres import Route
from bough.control.platform.certificates import SignedCertificate

CLIENTS = (8, 32, 200)
MIN_SHARE = 0.65
PROMISED = ("simple", "extended")
MAX_CONNECTIONS = 600  # three pools, and the largest number of direct clients
_CONNECTS_PER_SECOND = 50  # pgbench's time starts before its clients have connected
_IDLE = "memory of an idle client"


@dataclass(frozen=True, slots=True)
class PoolLoad:
    mode: str
    clients: int
    connect_each: bool = False

    @property
    def name(self) -> str:
        return "new connections" if self.connect_each else tls_postgres.format_load_name(self.mode, self.clients)

    @property
    def is_promised(self) -> bool:
        return self.mode in PROMISED and not self.connect_each

    def command(self, seconds: int) -> list[str]:
        total = seconds + self.clients // _CONNECTS_PER_SECOND
        return tls_postgres.pgbench_command(self.mode, self.clients, total, connect_each=self.connect_each)


LOADS = (
    *(PoolLoad(mode, clients) for mode in (*PROMISED, "prepared") for clients in CLIENTS),
    PoolLoad("simple", 4, connect_each=True),
)
# With more clients than server connections, so that these pass from client to client.
LOADS_WITH_RESET = tuple(load for load in LOADS if load.is_promised and load.clients == CLIENTS[-1])


class MeasuredPooler:
    """One route to the server, and its samples."""

    def __init__(self, route: Route, loads: tuple[PoolLoad, ...]) -> None:
        self.route = route
        self.loads = loads
        self._samples: dict[str, list[float]] = defaultdict(list)

    def measure(self, load: PoolLoad, seconds: int) -> None:
        self._samples[load.name].append(tls_postgres.measure_tps(load.command(seconds), self.route))

    def record_idle(self, kib: float) -> None:
        self._samples[_IDLE].append(kib)

    def make_measurement(self, what: str) -> Measurement:
        unit = "KiB" if what == _IDLE else "/s"
        return Measurement(name=f"{what}, {self.route.name}", unit=unit, samples=tuple(self._samples[what]))


@dataclass(frozen=True, slots=True)
class PooledServer:
    """The Postgres server behind all poolers."""

    work_folder: Path
    postgres: PlainPostgres
    port: int
    certificate: SignedCertificate

    def start_gateway(self, stack: ExitStack) -> tuple[Route, list[int]]:
        """Start gateway workers; return the route through them and their process ids."""
        workers = stack.enter_context(
            gateway_workers.start_workers(self._folder(), self.postgres, self.port, self.certificate)
        )
        return Route("pooled", workers.port, f"options=endpoint={gateway_workers.ENDPOINT}-pooler"), workers.pids

    def start_pgbouncer(self, stack: ExitStack, *, resets: bool = False) -> tuple[Route, list[int]]:
        context = pgbouncer.start_pgbouncer(self._folder(), self.postgres, self.port, self.certificate, resets=resets)
        process = stack.enter_context(context)
        return process.route, [process.pid]

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.work_folder))


def measure(sizes: Sizes) -> Iterator[Promise]:
    pgbouncer.find_program()  # fails early
    with ExitStack() as stack:
        work_folder, pair = (
            stack.enter_context(plain_postgres.create_work_folder()),
            gateway_workers.create_certificate(),
        )
        print_note("filling the server")
        context = tls_postgres.start_tls_postgres(
            work_folder, pair, sizes.pgbench_scale, max_connections=MAX_CONNECTIONS
        )
        postgres, direct_route = stack.enter_context(context)
        server = PooledServer(work_folder, postgres, direct_route.port, pair)
        unsupported = (
            () if pgbouncer.supports_prepared_statements() else tuple(load for load in LOADS if load.mode == "prepared")
        )
        ours = MeasuredPooler(server.start_gateway(stack)[0], LOADS)
        theirs = MeasuredPooler(
            server.start_pgbouncer(stack)[0], tuple(load for load in LOADS if load not in unsupported)
        )
        resetting = MeasuredPooler(server.start_pgbouncer(stack, resets=True)[0], LOADS_WITH_RESET)
        direct = MeasuredPooler(direct_route, unsupported)
        for routes in rotate_rounds((ours, theirs, resetting, direct)):
            for load in LOADS:
                for each in routes:
                    if load in each.loads:
                        each.measure(load, sizes.gateway_seconds)
            for each, start in ((ours, server.start_gateway), (theirs, server.start_pgbouncer)):
                with ExitStack() as fresh:  # processes that have served nothing yet
                    each.record_idle(idle_connections.measure_kib(*start(fresh)))
        yield _build_promise(sizes, ours, theirs, resetting, direct)


def _build_promise(
    sizes: Sizes, ours: MeasuredPooler, theirs: MeasuredPooler, resetting: MeasuredPooler, direct: MeasuredPooler
) -> Promise:
    pairs = [(load.name, load.is_promised, theirs if load in theirs.loads else direct) for load in LOADS]
    pairs.append((_IDLE, False, theirs))
    pairs += [(load.name, False, resetting) for load in LOADS_WITH_RESET]
    clients = f"{', '.join(map(str, CLIENTS[:-1]))} and {CLIENTS[-1]}"
    return Promise(
        name="pooling",
        sentence=f"On the pooled host {clients} clients get over {MIN_SHARE:.0%} of what {theirs.route.name} gives "
        "them, and the aim is more than all of it.",
        measurements=tuple(
            dict.fromkeys(each.make_measurement(what) for what, _, baseline in pairs for each in (baseline, ours))
        ),
        ratios=tuple(
            make_ratio(
                f"{what}, to {baseline.route.name}",
                ours.make_measurement(what),
                baseline.make_measurement(what),
                above=MIN_SHARE if is_promised else None,
            )
            for what, is_promised, baseline in pairs
        ),
        how=_how(sizes, ours.route),
        baseline=_baseline(theirs.route, direct),
    )


def _how(sizes: Sizes, route: Route) -> tuple[str, ...]:
    return (
        " ".join(PoolLoad("MODE", 8).command(sizes.gateway_seconds)) + f" '{route.conninfo}'",
        f"{CLIENTS[-1]} clients: {CLIENTS[-1] // _CONNECTS_PER_SECOND} s more, in which they connect, uncounted",
        "new connections: the same with --connect, 4 clients, simple",
        f"memory: private memory of workers just started, {idle_connections.CONNECTIONS} clients that "
        "have asked one query",
        f"at most {gateway_workers.SERVERS} server connections, each closed after "
        f"{gateway_workers.IDLE_SECONDS} s of rest",
        f"scale {sizes.pgbench_scale}; {ROUNDS} rounds, load by load; python -m bough.gateway, one worker a core",
    )


def _baseline(route: Route, direct: MeasuredPooler) -> tuple[str, ...]:
    prepared_baseline = (
        f"prepared: '{direct.route.conninfo}', because {route.name} {pgbouncer.get_version()} does not keep statements "
        "that were prepared by protocol when it pools by transaction"
    )
    return (
        f"the same commands with '{route.conninfo}', to the same server",
        *pgbouncer.describe_configuration(),
        *([prepared_baseline] if direct.loads else []),
        *tls_postgres.describe_configuration(MAX_CONNECTIONS),
    )

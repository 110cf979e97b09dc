"""What our pooling is worth: the same Postgres through PgBouncer and through our pooled host, in turn.

Both lend the same number of server connections by the transaction. Statements a second in each of
the protocol's three ways, new connections a second, and the memory of clients that do nothing. A
PgBouncer that cannot keep prepared statements is spared them; they are held against direct TLS. By
itself it cleans no server connection that changes hands, as we always do; so there is one that does too.
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
MAX_CONNECTIONS = 600  # three pools, and the most clients directly
_CONNECTING_A_SECOND = 50  # clients; pgbench's time begins before they have connected
_IDLE = "memory of an idle client"


@dataclass(frozen=True, slots=True)
class Load:
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
        whole = seconds + self.clients // _CONNECTING_A_SECOND
        return tls_postgres.pgbench_command(self.mode, self.clients, whole, connect_each=self.connect_each)


LOADS = (
    *(Load(mode, clients) for mode in (*PROMISED, "prepared") for clients in CLIENTS),
    Load("simple", 4, connect_each=True),
)
LOADS_WITH_RESET = tuple(
    load for load in LOADS if load.is_promised and load.clients == CLIENTS[-1]
)  # where they change hands


class MeasuredPooler:
    """One way to the server, and what was seen on it."""

    def __init__(self, way: Route, loads: tuple[Load, ...]) -> None:
        self.route = way
        self.loads = loads
        self._samples: dict[str, list[float]] = defaultdict(list)

    def measure(self, load: Load, seconds: int) -> None:
        self._samples[load.name].append(tls_postgres.measure_tps(load.command(seconds), self.route))

    def record_idle(self, kib: float) -> None:
        self._samples[_IDLE].append(kib)

    def make_measurement(self, what: str) -> Measurement:
        unit = "KiB" if what == _IDLE else "/s"
        return Measurement(name=f"{what}, {self.route.name}", unit=unit, samples=tuple(self._samples[what]))


@dataclass(frozen=True, slots=True)
class PooledServer:
    """The one Postgres, before which poolers are opened."""

    work_folder: Path
    postgres: PlainPostgres
    port: int
    certificate: SignedCertificate

    def start_gateway(self, stack: ExitStack) -> tuple[Route, list[int]]:
        """Our workers, newly started: the way through them, and who they are."""
        opened = stack.enter_context(
            gateway_workers.start_workers(self._folder(), self.postgres, self.port, self.certificate)
        )
        return Route("pooled", opened.port, f"options=endpoint={gateway_workers.ENDPOINT}-pooler"), opened.pids

    def start_pgbouncer(self, stack: ExitStack, *, cleans: bool = False) -> tuple[Route, list[int]]:
        opening = pgbouncer.start_pgbouncer(self._folder(), self.postgres, self.port, self.certificate, cleans=cleans)
        opened = stack.enter_context(opening)
        return opened.route, [opened.pid]

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.work_folder))


def measure(sizes: Sizes) -> Iterator[Promise]:
    pgbouncer.find_program()  # before anything is made
    with ExitStack() as stack:
        workplace, pair = stack.enter_context(plain_postgres.create_work_folder()), gateway_workers.create_certificate()
        print_note("filling the server")
        serving = tls_postgres.start_tls_postgres(workplace, pair, sizes.pgbench_scale, max_connections=MAX_CONNECTIONS)
        postgres, to_postgres = stack.enter_context(serving)
        server = PooledServer(workplace, postgres, to_postgres.port, pair)
        spared = (
            () if pgbouncer.supports_prepared_statements() else tuple(load for load in LOADS if load.mode == "prepared")
        )
        ours = MeasuredPooler(server.start_gateway(stack)[0], LOADS)
        theirs = MeasuredPooler(server.start_pgbouncer(stack)[0], tuple(load for load in LOADS if load not in spared))
        cleaning = MeasuredPooler(server.start_pgbouncer(stack, cleans=True)[0], LOADS_WITH_RESET)
        direct = MeasuredPooler(to_postgres, spared)
        for turn in rotate_rounds((ours, theirs, cleaning, direct)):
            for load in LOADS:
                for each in turn:
                    if load in each.loads:
                        each.measure(load, sizes.gateway_seconds)
            for each, opener in ((ours, server.start_gateway), (theirs, server.start_pgbouncer)):
                with ExitStack() as fresh:  # whose memory nobody has used yet
                    each.record_idle(idle_connections.measure_kib(*opener(fresh)))
        yield _promise(sizes, ours, theirs, cleaning, direct)


def _promise(
    sizes: Sizes, ours: MeasuredPooler, theirs: MeasuredPooler, cleaning: MeasuredPooler, direct: MeasuredPooler
) -> Promise:
    pairs = [(load.name, load.is_promised, theirs if load in theirs.loads else direct) for load in LOADS]
    pairs.append((_IDLE, False, theirs))
    pairs += [(load.name, False, cleaning) for load in LOADS_WITH_RESET]
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


def _how(sizes: Sizes, way: Route) -> tuple[str, ...]:
    return (
        " ".join(Load("MODE", 8).command(sizes.gateway_seconds)) + f" '{way.conninfo}'",
        f"{CLIENTS[-1]} clients: {CLIENTS[-1] // _CONNECTING_A_SECOND} s more, in which they connect, uncounted",
        "new connections: the same with --connect, 4 clients, simple",
        f"memory: private memory of workers just started, {idle_connections.CONNECTIONS} clients that "
        "have asked one query",
        f"at most {gateway_workers.SERVERS} server connections, each closed after "
        f"{gateway_workers.IDLE_SECONDS} s of rest",
        f"scale {sizes.pgbench_scale}; {ROUNDS} rounds, load by load; python -m bough.gateway, one worker a core",
    )


def _baseline(way: Route, direct: MeasuredPooler) -> tuple[str, ...]:
    instead = (
        f"prepared: '{direct.route.conninfo}', because {way.name} {pgbouncer.get_version()} does not keep statements "
        "that were prepared by protocol when it pools by transaction"
    )
    return (
        f"the same commands with '{way.conninfo}', to the same server",
        *pgbouncer.describe_configuration(),
        *([instead] if direct.loads else []),
        *tls_postgres.describe_configuration(MAX_CONNECTIONS),
    )

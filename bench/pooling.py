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

from bench import bouncer, by_hand, door, idle, tls
from bench.by_hand import Postgres
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note, turns
from bench.sizes import Sizes
from bench.tls import Way
from bough.control.certificates import Signed

CLIENTS = (8, 32, 200)
LEAST_SHARE = 0.65
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
        return "new connections" if self.connect_each else tls.load_name(self.mode, self.clients)

    @property
    def is_promised(self) -> bool:
        return self.mode in PROMISED and not self.connect_each

    def command(self, seconds: int) -> list[str]:
        whole = seconds + self.clients // _CONNECTING_A_SECOND
        return tls.load(self.mode, self.clients, whole, connect_each=self.connect_each)


LOADS = (
    *(Load(mode, clients) for mode in (*PROMISED, "prepared") for clients in CLIENTS),
    Load("simple", 4, connect_each=True),
)
CLEANED = tuple(load for load in LOADS if load.is_promised and load.clients == CLIENTS[-1])  # where they change hands


class Measured:
    """One way to the server, and what was seen on it."""

    def __init__(self, way: Way, loads: tuple[Load, ...]) -> None:
        self.way = way
        self.loads = loads
        self._seen: dict[str, list[float]] = defaultdict(list)

    def measure(self, load: Load, seconds: int) -> None:
        self._seen[load.name].append(tls.per_second(load.command(seconds), self.way))

    def keep_idle(self, kib: float) -> None:
        self._seen[_IDLE].append(kib)

    def figure(self, what: str) -> Figure:
        unit = "KiB" if what == _IDLE else "/s"
        return Figure(name=f"{what}, {self.way.name}", unit=unit, samples=tuple(self._seen[what]))


@dataclass(frozen=True, slots=True)
class Server:
    """The one Postgres, before which poolers are opened."""

    workplace: Path
    postgres: Postgres
    port: int
    pair: Signed

    def pooled(self, stack: ExitStack) -> tuple[Way, list[int]]:
        """Our workers, newly started: the way through them, and who they are."""
        opened = stack.enter_context(door.opened(self._folder(), self.postgres, self.port, self.pair))
        return Way("pooled", opened.port, f"options=endpoint={door.ENDPOINT}-pooler"), opened.pids

    def bouncer(self, stack: ExitStack, *, cleans: bool = False) -> tuple[Way, list[int]]:
        opening = bouncer.opened(self._folder(), self.postgres, self.port, self.pair, cleans=cleans)
        opened = stack.enter_context(opening)
        return opened.way, [opened.pid]

    def _folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.workplace))


def measure(sizes: Sizes) -> Iterator[Promise]:
    bouncer.program()  # before anything is made
    with ExitStack() as stack:
        workplace, pair = stack.enter_context(by_hand.workplace()), door.certificate()
        note("filling the server")
        serving = tls.serving(workplace, pair, sizes.pgbench_scale, max_connections=MAX_CONNECTIONS)
        postgres, to_postgres = stack.enter_context(serving)
        server = Server(workplace, postgres, to_postgres.port, pair)
        spared = () if bouncer.prepares() else tuple(load for load in LOADS if load.mode == "prepared")
        ours = Measured(server.pooled(stack)[0], LOADS)
        theirs = Measured(server.bouncer(stack)[0], tuple(load for load in LOADS if load not in spared))
        cleaning = Measured(server.bouncer(stack, cleans=True)[0], CLEANED)
        direct = Measured(to_postgres, spared)
        for turn in turns((ours, theirs, cleaning, direct)):
            for load in LOADS:
                for each in turn:
                    if load in each.loads:
                        each.measure(load, sizes.gateway_seconds)
            for each, opener in ((ours, server.pooled), (theirs, server.bouncer)):
                with ExitStack() as fresh:  # whose memory nobody has used yet
                    each.keep_idle(idle.kib(*opener(fresh)))
        yield _promise(sizes, ours, theirs, cleaning, direct)


def _promise(sizes: Sizes, ours: Measured, theirs: Measured, cleaning: Measured, direct: Measured) -> Promise:
    pairs = [(load.name, load.is_promised, theirs if load in theirs.loads else direct) for load in LOADS]
    pairs.append((_IDLE, False, theirs))
    pairs += [(load.name, False, cleaning) for load in CLEANED]
    clients = f"{', '.join(map(str, CLIENTS[:-1]))} and {CLIENTS[-1]}"
    return Promise(
        name="pooling",
        sentence=f"On the pooled host {clients} clients get over {LEAST_SHARE:.0%} of what {theirs.way.name} gives "
        "them, and the aim is more than all of it.",
        figures=tuple(dict.fromkeys(each.figure(what) for what, _, baseline in pairs for each in (baseline, ours))),
        ratios=tuple(
            ratio(
                f"{what}, to {baseline.way.name}",
                ours.figure(what),
                baseline.figure(what),
                above=LEAST_SHARE if is_promised else None,
            )
            for what, is_promised, baseline in pairs
        ),
        how=_how(sizes, ours.way),
        baseline=_baseline(theirs.way, direct),
    )


def _how(sizes: Sizes, way: Way) -> tuple[str, ...]:
    return (
        " ".join(Load("MODE", 8).command(sizes.gateway_seconds)) + f" '{way.conninfo}'",
        f"{CLIENTS[-1]} clients: {CLIENTS[-1] // _CONNECTING_A_SECOND} s more, in which they connect, uncounted",
        "new connections: the same with --connect, 4 clients, simple",
        f"memory: private memory of workers just started, {idle.COUNT} clients that have asked one query",
        f"at most {door.SERVERS} server connections, each closed after {door.IDLE_SECONDS} s of rest",
        f"scale {sizes.pgbench_scale}; {ROUNDS} rounds, load by load; python -m bough.gateway, one worker a core",
    )


def _baseline(way: Way, direct: Measured) -> tuple[str, ...]:
    instead = (
        f"prepared: '{direct.way.conninfo}', because {way.name} {bouncer.version()} does not keep statements "
        "that were prepared by protocol when it pools by transaction"
    )
    return (
        f"the same commands with '{way.conninfo}', to the same server",
        *bouncer.configuration(),
        *([instead] if direct.loads else []),
        *tls.configuration(MAX_CONNECTIONS),
    )

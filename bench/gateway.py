"""What a gateway costs: the same Postgres by direct TLS and through our workers, in turn.

Statements a second in each of the protocol's three ways, new connections a second, COPY in both
directions, and the memory of connections that do nothing.
"""

import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from bench import by_hand, door, idle, tls
from bench.promise import Figure, Promise, ratio
from bench.rounds import ROUNDS, note, turns
from bench.sizes import Sizes
from bench.tls import Way

MODES, CLIENTS = ("simple", "extended", "prepared"), (1, 8, 32)
LEAST_SHARE, AT_CLIENTS = 0.60, 8
MOST_KIB = 40.0
_COPY_IN = "copy pasted from stdin where false"


class Measured:
    """One way to the server, and what was seen on it."""

    def __init__(self, way: Way, seconds: int) -> None:
        self.way = way
        self._seconds = seconds
        self.seen: dict[str, list[float]] = defaultdict(list)

    def round(self, rows: Path, megabytes: float) -> None:
        for mode in MODES:
            for clients in CLIENTS:
                line = tls.load(mode, clients, self._seconds)
                self.seen[tls.load_name(mode, clients)].append(tls.per_second(line, self.way))
        each = tls.load("simple", 4, self._seconds, connect_each=True)
        self.seen["new connections"].append(tls.per_second(each, self.way))
        self.seen["COPY to the client"].append(megabytes / self._copy("copy rows to stdout", None))
        with rows.open("rb") as file:
            self.seen["COPY from the client"].append(megabytes / self._copy(_COPY_IN, file))

    def figure(self, what: str) -> Figure:
        unit = "MB/s" if what.startswith("COPY") else "/s"
        return Figure(name=f"{what}, {self.way.name}", unit=unit, samples=tuple(self.seen[what]))

    def _copy(self, statement: str, file: Any) -> float:
        began = time.monotonic()
        command = [tls.client("psql"), "--quiet", "--command", statement]
        tls.run(command, self.way, stdin=file, stdout=subprocess.DEVNULL)
        return time.monotonic() - began


def measure(sizes: Sizes) -> Iterator[Promise]:
    with ExitStack() as stack:
        workplace = stack.enter_context(by_hand.workplace())
        pair = door.certificate()
        note("filling the server")
        postgres, direct = stack.enter_context(tls.serving(workplace, pair, sizes.pgbench_scale))
        folder = Path(tempfile.mkdtemp(dir=workplace))

        def new_door() -> AbstractContextManager[door.Door]:
            return door.opened(Path(tempfile.mkdtemp(dir=workplace)), postgres, direct.port, pair)

        through = _way(stack.enter_context(new_door()))
        rows, megabytes = _rows(direct, folder, sizes)
        both = Measured(direct, sizes.gateway_seconds), Measured(through, sizes.gateway_seconds)
        memory: list[float] = []
        for turn in turns(both):
            for each in turn:
                each.round(rows, megabytes)
            with new_door() as fresh:  # whose memory nobody has used yet
                memory.append(idle.kib(_way(fresh), fresh.pids))
        yield _promise(sizes, *both, memory)


def _way(opened: door.Door) -> Way:
    return Way("gateway", opened.port, f"options=endpoint={door.ENDPOINT}")


def _rows(direct: Way, folder: Path, sizes: Sizes) -> tuple[Path, float]:
    psql = [tls.client("psql"), "--quiet", "--command"]
    made = f"select repeat(md5(i::text), 31) t from generate_series(1, {sizes.copied_mb * 1000}) i"
    tls.run([*psql, f"create unlogged table rows as {made}"], direct)
    tls.run([*psql, "create unlogged table pasted (t text)"], direct)
    path = folder / "rows"
    with path.open("wb") as file:
        tls.run([*psql, "copy rows to stdout"], direct, stdout=file)
    return path, path.stat().st_size / 1e6


def _promise(sizes: Sizes, direct: Measured, through: Measured, memory: list[float]) -> Promise:
    loads = [(tls.load_name(mode, clients), clients) for mode in MODES for clients in CLIENTS]
    others = ("new connections", "COPY to the client", "COPY from the client")
    memory_figure = Figure(name="memory of an idle connection", unit="KiB", samples=tuple(memory), below=MOST_KIB)
    return Promise(
        name="gateway",
        sentence=f"Through the gateway, {AT_CLIENTS} clients get over {LEAST_SHARE:.0%} of what direct TLS gives them.",
        figures=(
            *(each.figure(what) for what in (*(name for name, _ in loads), *others) for each in (direct, through)),
            memory_figure,
        ),
        ratios=(
            *(
                ratio(
                    f"{what}, to direct TLS",
                    through.figure(what),
                    direct.figure(what),
                    above=LEAST_SHARE if clients == AT_CLIENTS else None,
                )
                for what, clients in loads
            ),
            *(ratio(f"{what}, to direct TLS", through.figure(what), direct.figure(what)) for what in others),
        ),
        how=(
            " ".join(tls.load("MODE", 8, sizes.gateway_seconds)) + f" '{through.way.conninfo}'",
            "new connections: the same with --connect, 4 clients, simple",
            f"COPY: psql, {sizes.copied_mb} MB in rows of 1,000 bytes; those that come in are read and not kept",
            f"memory: private memory of workers just started, {idle.COUNT} connections that have asked one query",
            f"scale {sizes.pgbench_scale}; {ROUNDS} rounds; python -m bough.gateway, one worker a core",
        ),
        baseline=(
            f"the same commands with '{direct.way.conninfo}', to the same server",
            *tls.configuration(tls.MAX_CONNECTIONS),
        ),
    )

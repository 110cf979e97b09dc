"""The cost of the gateway: the same Postgres with direct TLS and through the gateway, alternating.

Measures statements per second in the three query modes, new connections per second, COPY in both directions, and
the memory of idle connections.
"""

import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from bench import gateway_workers, idle_connections, plain_postgres, tls_postgres
from bench.promise import Measurement, Promise, make_ratio
from bench.rounds import ROUNDS, print_note, rotate_rounds
from bench.sizes import Sizes
from bench.tls_postgres import Route

MODES, CLIENTS = ("simple", "extended", "prepared"), (1, 8, 32)
MIN_SHARE, PROMISED_CLIENTS = 0.60, 8
MAX_KIB = 40.0
_COPY_IN = "copy pasted from stdin where false"


class MeasuredRoute:
    """One route to the server, and its samples."""

    def __init__(self, route: Route, seconds: int) -> None:
        self.route = route
        self._seconds = seconds
        self.samples: dict[str, list[float]] = defaultdict(list)

    def run_round(self, rows: Path, megabytes: float) -> None:
        for mode in MODES:
            for clients in CLIENTS:
                command = tls_postgres.pgbench_command(mode, clients, self._seconds)
                self.samples[tls_postgres.format_load_name(mode, clients)].append(
                    tls_postgres.measure_tps(command, self.route)
                )
        command = tls_postgres.pgbench_command("simple", 4, self._seconds, connect_each=True)
        self.samples["new connections"].append(tls_postgres.measure_tps(command, self.route))
        self.samples["COPY to the client"].append(megabytes / self._copy("copy rows to stdout", None))
        with rows.open("rb") as file:
            self.samples["COPY from the client"].append(megabytes / self._copy(_COPY_IN, file))

    def make_measurement(self, what: str) -> Measurement:
        unit = "MB/s" if what.startswith("COPY") else "/s"
        return Measurement(name=f"{what}, {self.route.name}", unit=unit, samples=tuple(self.samples[what]))

    def _copy(self, statement: str, file: Any) -> float:
        started_at = time.monotonic()
        command = [tls_postgres.find_client_program("psql"), "--quiet", "--command", statement]
        tls_postgres.run_client(command, self.route, stdin=file, stdout=subprocess.DEVNULL)
        return time.monotonic() - started_at


def measure(sizes: Sizes) -> Iterator[Promise]:
    with ExitStack() as stack:
        work_folder = stack.enter_context(plain_postgres.create_work_folder())
        pair = gateway_workers.create_certificate()
        print_note("filling the server")
        postgres, direct = stack.enter_context(tls_postgres.start_tls_postgres(work_folder, pair, sizes.pgbench_scale))
        folder = Path(tempfile.mkdtemp(dir=work_folder))

        def start_gateway() -> AbstractContextManager[gateway_workers.WorkerGroup]:
            return gateway_workers.start_workers(Path(tempfile.mkdtemp(dir=work_folder)), postgres, direct.port, pair)

        through = _route(stack.enter_context(start_gateway()))
        rows, megabytes = _create_rows(direct, folder, sizes)
        both = MeasuredRoute(direct, sizes.gateway_seconds), MeasuredRoute(through, sizes.gateway_seconds)
        memory: list[float] = []
        for routes in rotate_rounds(both):
            for each in routes:
                each.run_round(rows, megabytes)
            with start_gateway() as fresh:  # workers that have served nothing yet
                memory.append(idle_connections.measure_kib(_route(fresh), fresh.pids))
        yield _build_promise(sizes, *both, memory)


def _route(workers: gateway_workers.WorkerGroup) -> Route:
    return Route("gateway", workers.port, f"options=endpoint={gateway_workers.ENDPOINT}")


def _create_rows(direct: Route, folder: Path, sizes: Sizes) -> tuple[Path, float]:
    psql = [tls_postgres.find_client_program("psql"), "--quiet", "--command"]
    rows = f"select repeat(md5(i::text), 31) t from generate_series(1, {sizes.copied_mb * 1000}) i"
    tls_postgres.run_client([*psql, f"create unlogged table rows as {rows}"], direct)
    tls_postgres.run_client([*psql, "create unlogged table pasted (t text)"], direct)
    path = folder / "rows"
    with path.open("wb") as file:
        tls_postgres.run_client([*psql, "copy rows to stdout"], direct, stdout=file)
    return path, path.stat().st_size / 1e6


def _build_promise(sizes: Sizes, direct: MeasuredRoute, through: MeasuredRoute, memory: list[float]) -> Promise:
    loads = [(tls_postgres.format_load_name(mode, clients), clients) for mode in MODES for clients in CLIENTS]
    others = ("new connections", "COPY to the client", "COPY from the client")
    memory_figure = Measurement(name="memory of an idle connection", unit="KiB", samples=tuple(memory), below=MAX_KIB)
    return Promise(
        name="gateway",
        sentence=(
            f"Through the gateway, {PROMISED_CLIENTS} clients get over {MIN_SHARE:.0%} of what direct TLS gives them."
        ),
        measurements=(
            *(
                each.make_measurement(what)
                for what in (*(name for name, _ in loads), *others)
                for each in (direct, through)
            ),
            memory_figure,
        ),
        ratios=(
            *(
                make_ratio(
                    f"{what}, to direct TLS",
                    through.make_measurement(what),
                    direct.make_measurement(what),
                    above=MIN_SHARE if clients == PROMISED_CLIENTS else None,
                )
                for what, clients in loads
            ),
            *(
                make_ratio(f"{what}, to direct TLS", through.make_measurement(what), direct.make_measurement(what))
                for what in others
            ),
        ),
        how=(
            " ".join(tls_postgres.pgbench_command("MODE", 8, sizes.gateway_seconds)) + f" '{through.route.conninfo}'",
            "new connections: the same with --connect, 4 clients, simple",
            f"COPY: psql, {sizes.copied_mb} MB in rows of 1,000 bytes; those that come in are read and not kept",
            f"memory: private memory of workers just started, {idle_connections.CONNECTIONS} connections "
            "that have asked one query",
            f"scale {sizes.pgbench_scale}; {ROUNDS} rounds; python -m bough.gateway, one worker a core",
        ),
        baseline=(
            f"the same commands with '{direct.route.conninfo}', to the same server",
            *tls_postgres.describe_configuration(tls_postgres.MAX_CONNECTIONS),
        ),
    )

"""The baseline of a branch: a server stopped, its data folder copied with `cp -a`, the copy started and asked.

Server and copy are made by hand, on the machine's own file system and with our computes' settings.
Nothing is synced, and the server that is copied rests meanwhile: the baseline does less than we do.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import by_hand
from bench.by_hand import MAJOR, Postgres
from bench.parents import FILLING, Kind
from bench.pgbench import Target
from bench.projects import first_row
from bench.stopwatch import Stopwatch, Times
from bough.postgres import ADMIN, MAINTENANCE_DATABASE

COPY, START, FIRST_ROW = "the copy", "its start", "connect and read a row"


def configuration() -> tuple[str, ...]:
    initdb, start, _, settings = by_hand.configuration()
    return (
        f"cp -a DATA COPY of a stopped Postgres {MAJOR}, then: {start.replace('DATA', 'COPY')}",
        f"psycopg: connect to SOCKETS as {ADMIN}, read a row",
        f"DATA was made by: {initdb}, and filled by the same statements",
        settings,
    )


@contextmanager
def filled(place: Path, kind: Kind) -> Iterator[Postgres]:
    """A server that holds the same as the parents, and is stopped."""
    with by_hand.postgres(place) as server:
        server.initdb()
        server.start(*(word for name, value in FILLING.items() for word in ("-c", f"{name}={value}")))
        asyncio.run(kind.fill(Target(server.sockets, ADMIN, MAINTENANCE_DATABASE)))
        server.stop()
        yield server


def entrance(server: Postgres) -> str:
    """For clients of libpq."""
    return f"host={server.sockets} user={ADMIN} dbname={MAINTENANCE_DATABASE}"


def copy_and_ask(source: Postgres, kind: Kind, times: Times) -> None:
    with by_hand.postgres(source.sockets.parent) as copied:
        watch = Stopwatch(times)
        subprocess.run(["cp", "-a", source.data, copied.data], check=True)
        watch.mark(COPY)
        copied.start()
        watch.mark(START)
        first_row(entrance(copied), kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        copied.stop()
        shutil.rmtree(copied.data)

"""The baseline of a branch: a stopped server, copied with `cp -a`; the copy is started and queried.

Server and copy are created by hand, on the machine's own file system and with the settings of our computes. Nothing is
synced, and the copied server is stopped: the baseline does less than Bough.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import plain_postgres
from bench.parent_databases import LOAD_SETTINGS, ParentKind
from bench.pgbench import ServerTarget
from bench.plain_postgres import MAJOR, PlainPostgres
from bench.project_client import read_first_row
from bench.stopwatch import Stopwatch, Times
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE

COPY, START, FIRST_ROW = "the copy", "its start", "connect and read a row"


def describe_configuration() -> tuple[str, ...]:
    initdb, start, _, settings = plain_postgres.describe_configuration()
    return (
        f"cp -a DATA COPY of a stopped Postgres {MAJOR}, then: {start.replace('DATA', 'COPY')}",
        f"psycopg: connect to SOCKETS as {ADMIN_ROLE}, read a row",
        f"DATA was created by: {initdb}, and filled by the same statements",
        settings,
    )


@contextmanager
def create_filled_server(work_folder: Path, kind: ParentKind) -> Iterator[PlainPostgres]:
    """Yield a stopped server with the same data as the parents."""
    with plain_postgres.create_postgres(work_folder) as server:
        server.initdb()
        server.start(*(word for name, value in LOAD_SETTINGS.items() for word in ("-c", f"{name}={value}")))
        asyncio.run(kind.fill(ServerTarget(server.sockets, ADMIN_ROLE, MAINTENANCE_DATABASE)))
        server.stop()
        yield server


def make_conninfo(server: PlainPostgres) -> str:
    """Return the connection string for libpq clients."""
    return f"host={server.sockets} user={ADMIN_ROLE} dbname={MAINTENANCE_DATABASE}"


def copy_and_query(source: PlainPostgres, kind: ParentKind, times: Times) -> None:
    with plain_postgres.create_postgres(source.sockets.parent) as copied:
        watch = Stopwatch(times)
        subprocess.run(["cp", "-a", source.data, copied.data], check=True)
        watch.mark(COPY)
        copied.start()
        watch.mark(START)
        read_first_row(make_conninfo(copied), kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        copied.stop()
        shutil.rmtree(copied.data)

"""The baseline of a read replica: `pg_basebackup` of a running server, started as a standby.

Server and standby are created by hand, on the machine's own file system and with the settings of our computes. Nothing
is synced: the baseline does less than Bough.
"""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import plain_postgres
from bench.cold_copy import make_conninfo
from bench.parent_databases import ParentKind
from bench.pgbench import ServerTarget, find_client_program
from bench.plain_postgres import PlainPostgres
from bench.project_client import read_first_row
from bench.stopwatch import Stopwatch, Times
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE

BACKUP, START, FIRST_ROW = "the backup", "its start", "connect and read a row"
_OPTIONS = ("--checkpoint", "fast", "--wal-method", "stream", "--no-sync")


def describe_configuration() -> tuple[str, ...]:
    initdb, start, _, settings = plain_postgres.describe_configuration()
    return (
        " ".join([find_client_program("pg_basebackup"), *_OPTIONS, "--pgdata", "COPY", "--host", "PRIMARY"])
        + f" --username {ADMIN_ROLE}, of a running, idle server; then COPY/standby.signal",
        f"{start.replace('DATA', 'COPY').replace('SOCKETS,', 'SOCKETS -c primary_conninfo=…,')}",
        f"psycopg: connect to SOCKETS as {ADMIN_ROLE}, read a row",
        f"the server was created by: {initdb}, and filled by the same statements",
        settings,
    )


@contextmanager
def create_filled_server(work_folder: Path, kind: ParentKind) -> Iterator[PlainPostgres]:
    """Yield a running server with the same data as the parents."""
    with plain_postgres.create_postgres(work_folder) as server:
        server.initdb()
        server.start()
        asyncio.run(kind.fill(ServerTarget(server.sockets, ADMIN_ROLE, MAINTENANCE_DATABASE)))
        yield server


def back_up_and_query(source: PlainPostgres, kind: ParentKind, times: Times) -> None:
    with plain_postgres.create_postgres(source.sockets.parent) as standby:
        source_options = ("--pgdata", str(standby.data), "--host", str(source.sockets), "--username", ADMIN_ROLE)
        watch = Stopwatch(times)
        standby.run(find_client_program("pg_basebackup"), *_OPTIONS, *source_options)
        (standby.data / "standby.signal").touch()
        watch.mark(BACKUP)
        standby.start("-c", f"primary_conninfo=host={source.sockets} user={ADMIN_ROLE}")
        watch.mark(START)
        read_first_row(make_conninfo(standby), kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        standby.stop()
        shutil.rmtree(standby.data)

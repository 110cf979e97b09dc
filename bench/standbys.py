"""The baseline of a read replica: `pg_basebackup` of a running server, and its copy started as a standby.

Server and standby are made by hand, on the machine's own file system and with our computes' settings.
Nothing is synced: the baseline does less than we do.
"""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import by_hand
from bench.by_hand import Postgres
from bench.copies import entrance
from bench.parents import Kind
from bench.pgbench import Target, client_program
from bench.projects import first_row
from bench.stopwatch import Stopwatch, Times
from bough.postgres import ADMIN, MAINTENANCE_DATABASE

BACKUP, START, FIRST_ROW = "the backup", "its start", "connect and read a row"
_OPTIONS = ("--checkpoint", "fast", "--wal-method", "stream", "--no-sync")


def configuration() -> tuple[str, ...]:
    initdb, start, _, settings = by_hand.configuration()
    return (
        " ".join([client_program("pg_basebackup"), *_OPTIONS, "--pgdata", "COPY", "--host", "PRIMARY"])
        + f" --username {ADMIN}, of a server that runs and rests; then COPY/standby.signal",
        f"{start.replace('DATA', 'COPY').replace('SOCKETS,', 'SOCKETS -c primary_conninfo=…,')}",
        f"psycopg: connect to SOCKETS as {ADMIN}, read a row",
        f"the server was made by: {initdb}, and filled by the same statements",
        settings,
    )


@contextmanager
def filled(place: Path, kind: Kind) -> Iterator[Postgres]:
    """A server that holds the same as the parents, and runs."""
    with by_hand.postgres(place) as server:
        server.initdb()
        server.start()
        asyncio.run(kind.fill(Target(server.sockets, ADMIN, MAINTENANCE_DATABASE)))
        yield server


def back_up_and_ask(source: Postgres, kind: Kind, times: Times) -> None:
    with by_hand.postgres(source.sockets.parent) as standby:
        whence = ("--pgdata", str(standby.data), "--host", str(source.sockets), "--username", ADMIN)
        watch = Stopwatch(times)
        standby.run(client_program("pg_basebackup"), *_OPTIONS, *whence)
        (standby.data / "standby.signal").touch()
        watch.mark(BACKUP)
        standby.start("-c", f"primary_conninfo=host={source.sockets} user={ADMIN}")
        watch.mark(START)
        first_row(entrance(standby), kind.rows)
        watch.mark(FIRST_ROW)
        watch.stop()
        standby.stop()
        shutil.rmtree(standby.data)

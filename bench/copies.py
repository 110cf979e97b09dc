"""The baseline of a branch: a server stopped, its data folder copied with `cp -a`, the copy started.

Server and copy are made by hand, on the machine's own file system and with our computes' settings.
Nothing is synced, and the server that is copied rests meanwhile: the baseline does less than we do.
"""

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import by_hand
from bench.by_hand import MAJOR, Postgres
from bench.parents import FILLING, Fill
from bench.pgbench import Target
from bench.stopwatch import Stopwatch, Times
from bough.postgres import ADMIN, MAINTENANCE_DATABASE

COPY, START = "the copy", "its start"


def configuration() -> tuple[str, ...]:
    initdb, start, _, settings = by_hand.configuration()
    return (
        f"cp -a DATA COPY of a stopped Postgres {MAJOR}, then: {start.replace('DATA', 'COPY')}",
        f"DATA was made by: {initdb}, and filled by the same statements",
        settings,
    )


@asynccontextmanager
async def filled(place: Path, fill: Fill) -> AsyncIterator[Postgres]:
    """A server that holds the same as the parents, and is stopped."""
    with by_hand.postgres(place) as server:
        server.initdb()
        server.start(*(word for name, value in FILLING.items() for word in ("-c", f"{name}={value}")))
        await fill(Target(server.sockets, ADMIN, MAINTENANCE_DATABASE))
        server.stop()
        yield server


def copy_and_start(place: Path, source: Postgres, times: Times) -> None:
    with by_hand.postgres(place) as copied:
        watch = Stopwatch(times)
        subprocess.run(["cp", "-a", source.data, copied.data], check=True)
        watch.mark(COPY)
        copied.start()
        watch.mark(START)
        watch.stop()
        copied.stop()
        shutil.rmtree(copied.data)

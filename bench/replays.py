"""The baseline of a restore: a server's `pg_basebackup`, and WAL from its archive replayed in it up to a moment.

Server and copy are made by hand, on the machine's own file system and with our computes' settings. Nothing is synced:
the baseline does less than we do.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psycopg

from bench import by_hand, standbys
from bench.by_hand import Postgres
from bench.copies import entrance
from bench.parents import Kind
from bench.pgbench import Target, client_program
from bench.projects import first_row
from bench.stopwatch import Stopwatch, Times
from bough.postgres import ADMIN, MAINTENANCE_DATABASE

BACKUP, REPLAY, FIRST_ROW = "the backup", "its start and the replay", "connect and read a row"
_OPTIONS = ("--checkpoint", "fast", "--wal-method", "none", "--no-sync", "--no-manifest")


class Archiving:
    """A server that keeps its WAL in a folder."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.archive = server.sockets / "archive"

    @property
    def target(self) -> Target:
        return Target(self.server.sockets, ADMIN, MAINTENANCE_DATABASE)

    def start(self) -> None:
        self.server.run("mkdir", "-p", str(self.archive))
        self.server.start("-c", "archive_mode=on", "-c", f"archive_command=cp %p {self.archive}/%f")

    def until_archived(self) -> None:
        """The last of what was written, too."""
        with psycopg.connect(entrance(self.server), autocommit=True) as session:
            session.execute("select pg_switch_wal()")
        while any((self.server.data / "pg_wal" / "archive_status").glob("*.ready")):
            time.sleep(0.05)


def configuration() -> tuple[str, ...]:
    initdb, start, _, settings = by_hand.configuration()
    return (
        " ".join([client_program("pg_basebackup"), *_OPTIONS, "--pgdata", "COPY", "--host", "SERVER"])
        + f" --username {ADMIN}, of a server that archives its WAL with cp and rests meanwhile",
        "then the same writes as ours had, and COPY/recovery.signal",
        start.replace("DATA", "COPY").replace("SOCKETS,", f"SOCKETS {' '.join(_replaying('ARCHIVE', 'MOMENT'))},"),
        f"psycopg: connect to SOCKETS as {ADMIN}, read a row",
        f"the server was made by: {initdb}, and filled by the same statements",
        settings,
    )


def _replaying(archive: str, moment: str) -> tuple[str, ...]:
    """Options of the server that goes back."""
    settings = {
        "restore_command": f"cp {archive}/%f %p",
        "recovery_target_time": moment,
        "recovery_target_action": "promote",
        "hot_standby": "off",
    }
    return tuple(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))


@contextmanager
def filled(place: Path, kind: Kind) -> Iterator[Archiving]:
    """A server that holds the same as ours, and runs."""
    with standbys.filled(place, kind) as server:
        server.stop()
        made = Archiving(server)
        made.start()
        yield made


class Backup:
    """A copy to restore from; what is written after it comes from the archive."""

    def __init__(self, source: Archiving, copy: Postgres, times: Times) -> None:
        self._source = source
        self._copy = copy
        self._watch = Stopwatch(times)
        whence = ("--pgdata", str(copy.data), "--host", str(source.server.sockets), "--username", ADMIN)
        quietly = ("--dbname", "options=-cclient_min_messages=warning")  # it says that it waited for the archive
        copy.run(client_program("pg_basebackup"), *_OPTIONS, *whence, *quietly)
        self._watch.mark(BACKUP)

    def restore(self, moment: datetime, kind: Kind) -> None:
        """What was done since the backup took no time of ours."""
        self._watch.skip()
        (self._copy.data / "recovery.signal").touch()
        self._copy.start(*_replaying(str(self._source.archive), moment.isoformat()))
        self._watch.mark(REPLAY)
        first_row(entrance(self._copy), kind.rows)
        self._watch.mark(FIRST_ROW)
        self._watch.stop()
        self._copy.stop()
        shutil.rmtree(self._copy.data)

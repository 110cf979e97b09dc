"""The baseline of a restore: a `pg_basebackup` with WAL from an archive replayed to a given time.

Server and copy are created by hand, on the machine's own file system and with the settings of our computes. Nothing is
synced: the baseline does less than Bough.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psycopg

from bench import plain_postgres, standby_backup
from bench.cold_copy import make_conninfo
from bench.parent_databases import ParentKind
from bench.pgbench import ServerTarget, find_client_program
from bench.plain_postgres import PlainPostgres
from bench.project_client import read_first_row
from bench.stopwatch import Stopwatch, Times
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE

BACKUP, REPLAY, FIRST_ROW = "the backup", "start and replay", "connect and read a row"
_OPTIONS = ("--checkpoint", "fast", "--wal-method", "none", "--no-sync", "--no-manifest")


class ArchivingServer:
    """A server that archives its WAL to a folder."""

    def __init__(self, server: PlainPostgres) -> None:
        self.server = server
        self.archive = server.sockets / "archive"

    @property
    def target(self) -> ServerTarget:
        return ServerTarget(self.server.sockets, ADMIN_ROLE, MAINTENANCE_DATABASE)

    def start(self) -> None:
        self.server.run("mkdir", "-p", str(self.archive))
        self.server.start("-c", "archive_mode=on", "-c", f"archive_command=cp %p {self.archive}/%f")

    def wait_until_archived(self) -> None:
        """Archive the last WAL as well."""
        with psycopg.connect(make_conninfo(self.server), autocommit=True) as session:
            session.execute("select pg_switch_wal()")
        while any((self.server.data / "pg_wal" / "archive_status").glob("*.ready")):
            time.sleep(0.05)


def describe_configuration() -> tuple[str, ...]:
    initdb, start, _, settings = plain_postgres.describe_configuration()
    return (
        " ".join([find_client_program("pg_basebackup"), *_OPTIONS, "--pgdata", "COPY", "--host", "SERVER"])
        + f" --username {ADMIN_ROLE}, of an idle server that archives its WAL with cp",
        "then the same writes as on Bough, and COPY/recovery.signal",
        start.replace("DATA", "COPY").replace(
            "SOCKETS,", f"SOCKETS {' '.join(_recovery_options('ARCHIVE', 'MOMENT'))},"
        ),
        f"psycopg: connect to SOCKETS as {ADMIN_ROLE}, read a row",
        f"the server was created by: {initdb}, and filled by the same statements",
        settings,
    )


def _recovery_options(archive: str, moment: str) -> tuple[str, ...]:
    """Return the recovery options of the restored server."""
    settings = {
        "restore_command": f"cp {archive}/%f %p",
        "recovery_target_time": moment,
        "recovery_target_action": "promote",
        "hot_standby": "off",
    }
    return tuple(word for name, value in settings.items() for word in ("-c", f"{name}={value}"))


@contextmanager
def create_archiving_server(work_folder: Path, kind: ParentKind) -> Iterator[ArchivingServer]:
    """Yield a running server with the same data as ours."""
    with standby_backup.create_filled_server(work_folder, kind) as server:
        server.stop()
        created = ArchivingServer(server)
        created.start()
        yield created


class Backup:
    """Takes the backup to restore from; later changes come from the archive."""

    def __init__(self, source: ArchivingServer, copy: PlainPostgres, times: Times) -> None:
        self._source = source
        self._copy = copy
        self._watch = Stopwatch(times)
        source_options = ("--pgdata", str(copy.data), "--host", str(source.server.sockets), "--username", ADMIN_ROLE)
        # Without these options it prints that it waited for the archive.
        quiet_options = ("--dbname", "options=-cclient_min_messages=warning")
        copy.run(find_client_program("pg_basebackup"), *_OPTIONS, *source_options, *quiet_options)
        self._watch.mark(BACKUP)

    def restore(self, moment: datetime, kind: ParentKind) -> None:
        """Exclude the time since the backup."""
        self._watch.skip()
        (self._copy.data / "recovery.signal").touch()
        self._copy.start(*_recovery_options(str(self._source.archive), moment.isoformat()))
        self._watch.mark(REPLAY)
        read_first_row(make_conninfo(self._copy), kind.rows)
        self._watch.mark(FIRST_ROW)
        self._watch.stop()
        self._copy.stop()
        shutil.rmtree(self._copy.data)

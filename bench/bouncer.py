"""PgBouncer in front of a Postgres made by hand: the pooler that everybody knows, as the baseline of ours.

One process, because it has one thread. Its clients come by TLS and SCRAM as ours do, and it reaches
Postgres by the same socket. What it logs about connections is off, as it is with our workers.
"""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench import door
from bench.by_hand import Postgres
from bench.places import NotHere
from bench.program import free_port
from bench.tls import Way
from bough.control.certificates import Signed
from bough.engine.local.isolation.sandbox import initdb_identity, start_options
from bough.postgres.secret import scram_verifier

NAME, CLEANING = "PgBouncer", "PgBouncer that cleans"
STATEMENTS = 200
CLEANS: dict[str, str | int] = {"server_reset_query": "DISCARD ALL", "server_reset_query_always": 1}
_PREPARES_SINCE = (1, 21)
_PATIENCE, _LOOK = 10.0, 0.01  # seconds


@dataclass(frozen=True, slots=True)
class Bouncer:
    way: Way
    pid: int


@cache
def program() -> str:
    """Debian keeps it where only root looks."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise NotHere("There is no pgbouncer on this machine: install the package pgbouncer.")
    return found


@cache
def version() -> str:
    said = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True).stdout
    return str(re.findall(r"PgBouncer ([0-9.]+)", said)[0])


def prepares() -> bool:
    """Whether statements that are prepared by protocol live through pooling by transaction."""
    return tuple(map(int, version().split(".")))[:2] >= _PREPARES_SINCE


def configuration() -> tuple[str, ...]:
    """The exact command and settings, line by line."""
    return (
        f"{program()} FOLDER/ini, version {version()}, one process",
        f"FOLDER/ini: [databases] {_database('SOCKETS', 'PORT')} [pgbouncer] "
        + ", ".join(_lines(_settings("FOLDER", "OWN PORT"))),
        f'FOLDER/users: "{door.ROLE}" "SCRAM-SHA-256$…"',
        f"{CLEANING}: the same with {', '.join(_lines(CLEANS))}",
    )


@contextmanager
def opened(folder: Path, postgres: Postgres, port: int, pair: Signed, *, cleans: bool = False) -> Iterator[Bouncer]:
    """`cleans`: after every transaction, so that the next client finds nothing of the last one, as with us."""
    way = Way(CLEANING if cleans else NAME, free_port())
    files = {
        "ini": "\n".join(
            [
                "[databases]",
                _database(str(postgres.sockets), str(port)),
                "[pgbouncer]",
                *_lines(_settings(str(folder), str(way.port)) | (CLEANS if cleans else {})),
                "",
            ]
        ),
        "users": f'"{door.ROLE}" "{scram_verifier(door.PASSWORD)}"\n',
        "key": pair.key_pem.decode(),
        "certificate": pair.certificate_pem.decode(),
    }
    owner = initdb_identity()  # it refuses root, as Postgres does
    for name, text in files.items():
        (folder / name).write_text(text)
        os.chown(folder / name, owner.uid, owner.gid)
    os.chown(folder, owner.uid, owner.gid)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program(), str(folder / "ini")], stderr=log, **start_options(owner))
    try:
        _wait_until_it_listens(process, way.port, folder / "log")
        yield Bouncer(way, process.pid)
    finally:
        process.kill()  # which signal ends it at once depends on the version
        process.wait()


def _database(sockets: str, port: str) -> str:
    return f"* = host={sockets} port={port}"


def _settings(folder: str, port: str) -> dict[str, str | int]:
    statements = {"max_prepared_statements": STATEMENTS} if prepares() else {}
    return {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "scram-sha-256",
        "auth_file": f"{folder}/users",
        "client_tls_sslmode": "require",
        "client_tls_key_file": f"{folder}/key",
        "client_tls_cert_file": f"{folder}/certificate",
        "pool_mode": "transaction",
        "default_pool_size": door.SERVERS,
        "server_idle_timeout": door.IDLE_SECONDS,
        "max_client_conn": 2000,
        "log_connections": 0,
        "log_disconnections": 0,
        **statements,
    }


def _lines(settings: Mapping[str, str | int]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(_LOOK)
    raise RuntimeError(f"{NAME} could not start: {log.read_text().strip()}")

"""PgBouncer in front of a plain Postgres, as the baseline for pooling.

It runs as one process, because it is single-threaded. Clients use TLS and SCRAM as with the gateway, and it connects
to Postgres through the same socket. Logging of connections is off, as in the gateway's workers.
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

from bench import gateway_workers
from bench.plain_postgres import PlainPostgres
from bench.program import find_free_port
from bench.storage import RequirementMissing
from bench.tls_postgres import Route
from bough.control.platform.certificates import SignedCertificate
from bough.engine.local.isolation.sandbox import build_popen_options, find_initdb_identity
from bough.postgres.scram import scram_verifier

NAME, NAME_WITH_RESET = "PgBouncer", "PgBouncer with reset"
MAX_PREPARED_STATEMENTS = 200
RESET_SETTINGS: dict[str, str | int] = {"server_reset_query": "DISCARD ALL", "server_reset_query_always": 1}
_PREPARED_STATEMENTS_SINCE = (1, 21)
_START_SECONDS, _POLL_SECONDS = 10.0, 0.01


@dataclass(frozen=True, slots=True)
class PgBouncer:
    route: Route
    pid: int


@cache
def find_program() -> str:
    """Search sbin too, where Debian installs it."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise RequirementMissing("pgbouncer is not installed on this machine: install the package pgbouncer.")
    return found


@cache
def get_version() -> str:
    output = subprocess.run([find_program(), "--version"], capture_output=True, text=True, check=True).stdout
    return str(re.findall(r"PgBouncer ([0-9.]+)", output)[0])


def supports_prepared_statements() -> bool:
    """Whether protocol-level prepared statements work in transaction mode."""
    return tuple(map(int, get_version().split(".")))[:2] >= _PREPARED_STATEMENTS_SINCE


def describe_configuration() -> tuple[str, ...]:
    """Return the exact command and settings, line by line."""
    return (
        f"{find_program()} FOLDER/ini, version {get_version()}, one process",
        f"FOLDER/ini: [databases] {_database('SOCKETS', 'PORT')} [pgbouncer] "
        + ", ".join(_lines(_settings("FOLDER", "OWN PORT"))),
        f'FOLDER/users: "{gateway_workers.ROLE}" "SCRAM-SHA-256$…"',
        f"{NAME_WITH_RESET}: the same with {', '.join(_lines(RESET_SETTINGS))}",
    )


@contextmanager
def start_pgbouncer(
    folder: Path, postgres: PlainPostgres, port: int, pair: SignedCertificate, *, resets: bool = False
) -> Iterator[PgBouncer]:
    """With `resets`, PgBouncer resets the session after every transaction, as the gateway does between clients."""
    route = Route(NAME_WITH_RESET if resets else NAME, find_free_port())
    files = {
        "ini": "\n".join(
            [
                "[databases]",
                _database(str(postgres.sockets), str(port)),
                "[pgbouncer]",
                *_lines(_settings(str(folder), str(route.port)) | (RESET_SETTINGS if resets else {})),
                "",
            ]
        ),
        "users": f'"{gateway_workers.ROLE}" "{scram_verifier(gateway_workers.PASSWORD)}"\n',
        "key": pair.key_pem.decode(),
        "certificate": pair.certificate_pem.decode(),
    }
    owner = find_initdb_identity()  # it refuses to run as root, as Postgres does
    for name, text in files.items():
        (folder / name).write_text(text)
        os.chown(folder / name, owner.uid, owner.gid)
    os.chown(folder, owner.uid, owner.gid)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([find_program(), str(folder / "ini")], stderr=log, **build_popen_options(owner))
    try:
        _wait_until_listening(process, route.port, folder / "log")
        yield PgBouncer(route, process.pid)
    finally:
        process.kill()  # the signal for an immediate shutdown depends on the version
        process.wait()


def _database(sockets: str, port: str) -> str:
    return f"* = host={sockets} port={port}"


def _settings(folder: str, port: str) -> dict[str, str | int]:
    statements = {"max_prepared_statements": MAX_PREPARED_STATEMENTS} if supports_prepared_statements() else {}
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
        "default_pool_size": gateway_workers.SERVERS,
        "server_idle_timeout": gateway_workers.IDLE_SECONDS,
        "max_client_conn": 2000,
        "log_connections": 0,
        "log_disconnections": 0,
        **statements,
    }


def _lines(settings: Mapping[str, str | int]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


def _wait_until_listening(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(_POLL_SECONDS)
    raise RuntimeError(f"{NAME} could not start: {log.read_text().strip()}")

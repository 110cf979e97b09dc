"""A Postgres server created by hand with TLS and SCRAM on loopback, and its clients."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bench import gateway_workers, plain_postgres
from bench.plain_postgres import PlainPostgres
from bench.program import find_free_port
from bench.storage import RequirementMissing
from bough.control.platform.certificates import SignedCertificate
from bough.engine.local.isolation.sandbox import find_initdb_identity
from bough.postgres import ADMIN_ROLE, MAINTENANCE_DATABASE
from bough.postgres.scram import scram_verifier

HBA = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
MAX_CONNECTIONS = 400
_RATE = re.compile(r"tps = ([0-9.]+)")
_CONNECTING = re.compile(r"initial connection time = ([0-9.]+) ms")
_MAX_CONNECTING_SHARE, _TRIES = 0.75, 5  # of the time


@dataclass(frozen=True, slots=True)
class Route:
    """How a client connects to the server."""

    name: str
    port: int
    options: str = ""

    @property
    def conninfo(self) -> str:
        output = (
            f"host=127.0.0.1 port={self.port} user={gateway_workers.ROLE} dbname={MAINTENANCE_DATABASE} sslmode=require"
        )
        return f"{output} {self.options}".strip()


@cache
def find_client_program(name: str) -> str:
    """Return a Postgres client program with TLS support; those of the Python package have none."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / name).exists():
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise RequirementMissing(f"{name} with TLS support was not found: install the package postgresql-client.")
    return found


def run_client(line: list[str], route: Route, *, stdin: Any = None, stdout: Any = subprocess.PIPE) -> str:
    done = subprocess.run(
        [*line, route.conninfo],
        env={**os.environ, "PGPASSWORD": gateway_workers.PASSWORD},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{line[0]} failed through {route.name}: {done.stderr.decode().strip()}")
    return (done.stdout or b"").decode()


def pgbench_command(mode: str, clients: int, seconds: int, *, connect_each: bool = False) -> list[str]:
    threads = str(min(clients, 2))
    line = [
        find_client_program("pgbench"),
        "--no-vacuum",
        "--select-only",
        "--protocol",
        mode,
        "--client",
        str(clients),
    ]
    return [*line, "--jobs", threads, "--time", str(seconds), *(["--connect"] if connect_each else [])]


def format_load_name(mode: str, clients: int) -> str:
    return f"select-only, {mode}, {clients} client{'s' if clients > 1 else ''}"


def measure_tps(line: list[str], route: Route) -> float:
    """Repeat a run with more time if connecting took too much of it: pgbench counts the time to connect."""
    place = line.index("--time") + 1
    for times in range(1, _TRIES + 1):
        seconds = int(line[place]) * times
        output = run_client([*line[:place], str(seconds), *line[place + 1 :]], route)
        rate, connecting = _RATE.findall(output), _CONNECTING.findall(output)
        if rate and sum(map(float, connecting)) / 1000 < _MAX_CONNECTING_SHARE * seconds:
            return float(rate[0])
    raise RuntimeError(f"clients through {route.name} took more than {_MAX_CONNECTING_SHARE * seconds:g} s to connect")


def describe_configuration(max_connections: int) -> tuple[str, ...]:
    """Return the configuration of the server."""
    return (
        f"postgres -D DATA -c listen_addresses=127.0.0.1 -c ssl=on -c max_connections={max_connections}",
        f"pg_hba.conf: {', '.join(HBA.splitlines())}",
        "DATA/postgresql.conf: " + ", ".join(plain_postgres.SETTINGS.splitlines()),
    )


@contextmanager
def start_tls_postgres(
    work_folder: Path, pair: SignedCertificate, scale: int, *, max_connections: int = MAX_CONNECTIONS
) -> Iterator[tuple[PlainPostgres, Route]]:
    """Start a server with pgbench's tables; return how to connect to it directly."""
    with plain_postgres.create_postgres(work_folder) as postgres:
        postgres.initdb()
        port = find_free_port()
        for name, text in (("server.crt", pair.certificate_pem), ("server.key", pair.key_pem)):
            _write_private_file(postgres.data / name, text)
        (postgres.data / "pg_hba.conf").write_text(HBA)
        settings = ("listen_addresses=127.0.0.1", f"port={port}", "ssl=on", f"max_connections={max_connections}")
        postgres.start(*(word for setting in settings for word in ("-c", setting)))
        _psql(
            postgres,
            port,
            f"create role {gateway_workers.ROLE} superuser login password '{scram_verifier(gateway_workers.PASSWORD)}'",
        )
        direct = Route("direct TLS", port)
        run_client([find_client_program("pgbench"), "--initialize", "--quiet", "--scale", str(scale)], direct)
        yield postgres, direct


def _psql(postgres: PlainPostgres, port: int, statement: str) -> None:
    place = ("--host", str(postgres.sockets), "--port", str(port), "--username", ADMIN_ROLE)
    subprocess.run(
        [find_client_program("psql"), "--quiet", *place, "--command", statement, MAINTENANCE_DATABASE], check=True
    )


def _write_private_file(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    path.chmod(0o600)
    owner = find_initdb_identity()
    os.chown(path, owner.uid, owner.gid)

"""A Postgres made by hand that takes TLS and SCRAM on loopback, and clients that speak TLS to it."""

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

from bench import by_hand, door
from bench.by_hand import Postgres
from bench.places import NotHere
from bench.program import free_port
from bough.control.certificates import Signed
from bough.engine.local.isolation.sandbox import initdb_identity
from bough.postgres import ADMIN, MAINTENANCE_DATABASE
from bough.postgres.secret import scram_verifier

HBA = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"


@dataclass(frozen=True, slots=True)
class Way:
    """How a client reaches the server."""

    name: str
    port: int
    options: str = ""

    @property
    def conninfo(self) -> str:
        words = f"host=127.0.0.1 port={self.port} user={door.ROLE} dbname={MAINTENANCE_DATABASE} sslmode=require"
        return f"{words} {self.options}".strip()


@cache
def client(name: str) -> str:
    """A program of Postgres's that knows TLS; those of the Python package do not."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / name).exists():
            return str(folder / name)
    found = shutil.which(name)
    if found is None:
        raise NotHere(f"There is no {name} with TLS on this machine: install the package postgresql-client.")
    return found


def run(line: list[str], way: Way, *, stdin: Any = None, stdout: Any = subprocess.PIPE) -> str:
    done = subprocess.run(
        [*line, way.conninfo],
        env={**os.environ, "PGPASSWORD": door.PASSWORD},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{line[0]} failed by way of {way.name}: {done.stderr.decode().strip()}")
    return (done.stdout or b"").decode()


def load(mode: str, clients: int, seconds: int, *, connect_each: bool = False) -> list[str]:
    threads = str(min(clients, 2))
    line = [client("pgbench"), "--no-vacuum", "--select-only", "--protocol", mode, "--client", str(clients)]
    return [*line, "--jobs", threads, "--time", str(seconds), *(["--connect"] if connect_each else [])]


def per_second(line: list[str], way: Way) -> float:
    return float(re.findall(r"tps = ([0-9.]+)", run(line, way))[0])


@contextmanager
def serving(workplace: Path, pair: Signed, scale: int) -> Iterator[tuple[Postgres, Way]]:
    """One that holds pgbench's tables; how to reach it without a gateway."""
    with by_hand.postgres(workplace) as postgres:
        postgres.initdb()
        port = free_port()
        for name, text in (("server.crt", pair.certificate_pem), ("server.key", pair.key_pem)):
            _private(postgres.data / name, text)
        (postgres.data / "pg_hba.conf").write_text(HBA)
        postgres.start(
            "-c", "listen_addresses=127.0.0.1", "-c", f"port={port}", "-c", "ssl=on", "-c", "max_connections=400"
        )
        _psql(postgres, port, f"create role {door.ROLE} superuser login password '{scram_verifier(door.PASSWORD)}'")
        direct = Way("direct TLS", port)
        run([client("pgbench"), "--initialize", "--quiet", "--scale", str(scale)], direct)
        yield postgres, direct


def _psql(postgres: Postgres, port: int, statement: str) -> None:
    place = ("--host", str(postgres.sockets), "--port", str(port), "--username", ADMIN)
    subprocess.run([client("psql"), "--quiet", *place, "--command", statement, MAINTENANCE_DATABASE], check=True)


def _private(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    path.chmod(0o600)
    owner = initdb_identity()
    os.chown(path, owner.uid, owner.gid)

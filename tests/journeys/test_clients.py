"""Real clients through the gateway: each does the same, sees the same, and binds its channel where it can.

`clients/` has a program for each. They resolve the host themselves, because a bare machine knows no names
under `localhost`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import requires
from journeys import psql
from journeys.served import Served

PROGRAMS = Path(__file__).parent / "clients"
PACKAGES = ("pg@8.23.1", "pg-copy-streams@7.0.0", "postgres@3.4.9")
JDBC = Path("/usr/share/java/postgresql.jar")  # Debian's package has it there
ADDRESS = "127.0.0.1"
SEEN: dict[str, Any] = {
    "prepared": [1, 4, 9, 16, 25, 36, 49, 64, 81, 100],
    "statements": 1,
    "cancelled": "57014",
    "after_cancel": 1,
    "copied": 10_000,
    "copied_bytes": 147_780,
    "streamed": 100 * 1024 * 1024,
    "notified": ["one", "two"],
    "refused": ["22012", "25P02"],
    "recovered": 7,
}


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both clients of Node, installed outside the project; their files stay in npm's own cache between runs."""
    npm = requires.require_node()
    folder = tmp_path_factory.mktemp("npm")
    command = [npm, "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run([*command, *PACKAGES], cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    requires.require("node", done.returncode == 0, f"npm could not install {PACKAGES}: {done.stderr.strip()[-300:]}")
    return folder / "node_modules"


def uri_of(one: Served) -> str:
    return str(one.made["connection_uris"][0]["connection_uri"])


def drive(one: Served, *command: str | Path, uri: str = "", **variables: str) -> dict[str, Any]:
    """What the program saw, and whether it bound its channel."""
    done = subprocess.run(
        [*map(str, command), uri or uri_of(one), ADDRESS],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    print(seen.pop("client"))
    return seen


def test_psql(project: Served) -> None:
    """With the libpq of this machine."""
    seen = drive(project, sys.executable, PROGRAMS / "drive_psql.py", PSQL=str(psql.of_this_machine()))
    assert seen == {**SEEN, "is_bound": True}


@pytest.mark.parametrize(
    "more", ["sslmode=require", "max_protocol_version=latest", "sslnegotiation=direct", "sslmode=verify-full"]
)
def test_psycopg(project: Served, more: str) -> None:
    """With a libpq of its own, of another major, in the ways that are new in it."""
    uri = f"{uri_of(project)}&{more}&sslrootcert={project.settings.home / 'ca.crt'}"
    assert drive(project, sys.executable, PROGRAMS / "drive_psycopg.py", uri=uri) == {**SEEN, "is_bound": True}


def test_asyncpg(project: Served) -> None:
    assert drive(project, sys.executable, PROGRAMS / "drive_asyncpg.py") == {**SEEN, "is_bound": False}


def test_node_postgres(project: Served, node_modules: Path) -> None:
    seen = drive(project, "node", "--no-deprecation", PROGRAMS / "drive_node_postgres.mjs", node_modules)
    assert seen == {**SEEN, "is_bound": True}


def test_postgres_js(project: Served, node_modules: Path) -> None:
    assert drive(project, "node", PROGRAMS / "drive_postgres_js.mjs", node_modules) == {**SEEN, "is_bound": False}


def test_jdbc(project: Served, tmp_path: Path) -> None:
    """Drivers before 42.7.4, as Debian's, cannot bind."""
    requires.require("java", JDBC.exists() and shutil.which("javac") is not None, "this test needs a JDK and pgjdbc")
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{ADDRESS} {urlsplit(uri_of(project)).hostname}\n")
    seen = drive(project, "java", f"-Djdk.net.hosts.file={hosts}", "-cp", JDBC, PROGRAMS / "DriveJdbc.java")
    assert {**seen, "is_bound": False} == {**SEEN, "is_bound": False}

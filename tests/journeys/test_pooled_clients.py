"""Real clients at the pooled host, with their defaults: each does the same and sees the same.

`pooled/` has a program for each. Behind the host are fewer server connections than each of them opens, so
that all they do is done on connections that somebody else had just before.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pytest
import pytest_asyncio

import requires
from cli.program import Program
from journeys import psql
from journeys.pooled.host import ADDRESS, DIRECT, Watch, pooled_uri
from journeys.served import Served, serving
from world import short_folder

PROGRAMS = Path(__file__).parent / "pooled"
PACKAGES = ("pg@8.23.1", "pg-copy-streams@7.0.0", "postgres@3.4.9", "drizzle-orm@0.45.4")
JDBC = Path("/usr/share/java/postgresql.jar")  # Debian's package has it there
SERVERS = 3
SEEN: dict[str, Any] = {
    "right": 200,  # answers to 8 connections, each with another statement of the same name
    "kept": 8,  # of which each had a setting of its own,
    "words": 8,  # and one that Postgres does not know
    "cancelled": "57014",
    "after_cancel": 1,
    "copied": 10_000,
    "copied_bytes": 147_780,
    "streamed": 100 * 1024 * 1024,
    "refused": ["22012", "25P02"],
    "recovered": 7,
    "listened": ["0A000", True],  # and told of the direct host
    "temporary": ["0A000", 3, "42P01"],  # outside a transaction, inside, after it
    "locked": ["0A000", False, True],  # for the session; for a transaction, while another has it and after
}
SEEN_BY_ORM = {
    "accounts": 10,
    "total": 10_000,  # whatever was moved between them
    "balanced": 10,  # the entries of each say what it has
    "entries": 320,  # two for each of 8 transfers of 20 workers
    "versions": 330,
    "regretted": 40,
    "caught": 20,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def few() -> AsyncIterator[Served]:
    """A project whose pool is small."""
    with short_folder(0o755) as folder:
        program = Program(folder / "home")
        async with serving(program, pgbouncer_settings={"default_pool_size": str(SERVERS)}) as made:
            yield made
        program.clean_up()


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Node needs, installed outside the project; the files stay in npm's own cache between runs."""
    npm = requires.require_node()
    folder = tmp_path_factory.mktemp("npm")
    command = [npm, "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run([*command, *PACKAGES], cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    requires.require("node", done.returncode == 0, f"npm could not install {PACKAGES}: {done.stderr.strip()[-300:]}")
    return folder / "node_modules"


def drive(one: Served, *command: str | Path, **variables: str) -> dict[str, Any]:
    """What the program saw; and whether Postgres saw no more connections than it may."""
    with Watch(one) as watch:
        done = subprocess.run(
            [*map(str, command)],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{seen.pop('client')}: at most {watch.most} server connections in {watch.looks} looks")
    return {**seen, "is_within_its_size": watch.looks > 0 and watch.most <= SERVERS}


def drive_client(
    one: Served, *command: str | Path, uri: str = "", address: str = ADDRESS, **variables: str
) -> dict[str, Any]:
    """The same, and the news that it sent."""
    with psycopg.connect(one.uri, autocommit=True, application_name=DIRECT) as listener:
        listener.execute("listen news")
        seen = drive(one, *command, uri or pooled_uri(one), address, **variables)
        return {**seen, "heard": [note.payload for note in listener.notifies(timeout=30, stop_after=1)]}


def saw(*, is_bound: bool, **more: Any) -> dict[str, Any]:
    return {**SEEN, "heard": ["heard"], "is_within_its_size": True, "is_bound": is_bound, **more}


def test_psql(few: Served) -> None:
    """With the libpq of this machine."""
    seen = drive_client(few, sys.executable, PROGRAMS / "drive_psql.py", PSQL=str(psql.of_this_machine()))
    assert seen == saw(is_bound=True)


def test_psql_that_prepares(few: Served) -> None:
    """A newer one, which has no TLS, at the local door; its options name the pooled host."""
    given = few.made["connection_uris"][0]["connection_parameters"]
    folder = quote(str(few.settings.sockets / "door"), safe="")
    who = f"{given['role']}:{quote(given['password'])}"
    uri = f"postgresql://{who}@{folder}/{given['database']}?options=endpoint%3D{few.endpoint}-pooler"
    program = PROGRAMS / "drive_psql.py"
    seen = drive_client(few, sys.executable, program, uri=uri, address="", PSQL=str(psql.OURS))
    assert seen == saw(is_bound=False)


@pytest.mark.parametrize("more", ["sslmode=require", "max_protocol_version=latest", "sslnegotiation=direct"])
def test_psycopg(few: Served, more: str) -> None:
    """With a libpq of its own, of another major, in the ways that are new in it."""
    seen = drive_client(few, sys.executable, PROGRAMS / "drive_psycopg.py", uri=f"{pooled_uri(few)}&{more}")
    assert seen == saw(is_bound=True, pipelined=90)


def test_asyncpg(few: Served) -> None:
    assert drive_client(few, sys.executable, PROGRAMS / "drive_asyncpg.py") == saw(
        is_bound=False, right_in_its_pool=200
    )


def test_node_postgres(few: Served, node_modules: Path) -> None:
    seen = drive_client(few, "node", "--no-deprecation", PROGRAMS / "drive_node_postgres.mjs", node_modules)
    assert seen == saw(is_bound=True, right_in_its_pool=200)


def test_postgres_js(few: Served, node_modules: Path) -> None:
    seen = drive_client(few, "node", PROGRAMS / "drive_postgres_js.mjs", node_modules)
    assert seen == saw(is_bound=False, right_in_its_pool=200)


def test_jdbc(few: Served, tmp_path: Path) -> None:
    """Drivers before 42.7.4, as Debian's, cannot bind."""
    requires.require("java", JDBC.exists() and shutil.which("javac") is not None, "this test needs a JDK and pgjdbc")
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{ADDRESS} {urlsplit(pooled_uri(few)).hostname}\n")
    seen = drive_client(few, "java", f"-Djdk.net.hosts.file={hosts}", "-cp", JDBC, PROGRAMS / "DriveJdbc.java")
    assert {**seen, "is_bound": False} == saw(is_bound=False)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_sqlalchemy(few: Served, driver: str) -> None:
    seen = drive(few, sys.executable, PROGRAMS / "orm_sqlalchemy.py", driver, pooled_uri(few), ADDRESS)
    assert seen == {**SEEN_BY_ORM, "is_within_its_size": True}


@pytest.mark.parametrize("driver", ["postgres.js", "node-postgres"])
def test_drizzle(few: Served, node_modules: Path, driver: str) -> None:
    program = PROGRAMS / "orm_drizzle.mjs"
    seen = drive(few, "node", "--no-deprecation", program, driver, node_modules, pooled_uri(few), ADDRESS)
    assert seen == {**SEEN_BY_ORM, "is_within_its_size": True}

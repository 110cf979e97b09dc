"""Real clients at the pooled host, with their defaults: each does the same and sees the same.

`pooled/` has a program for each. Behind the host are fewer server connections than each of them opens, so
that all they do is done on connections that somebody else had just before.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
import pytest_asyncio

from journeys import psql
from journeys.client_programs import (
    EXPECTED_AT_BOTH_HOSTS,
    compile_jdbc_program,
    node_command,
    python_command,
    run_client,
)
from journeys.pooled.connections import DIRECT_APPLICATION_NAME, ServerConnectionMonitor, get_pooled_uri
from journeys.served_project import ADDRESS, RunningPlatform, ServedProject, create_project

SERVERS = 3
SEEN: dict[str, Any] = {
    **EXPECTED_AT_BOTH_HOSTS,
    "right": 200,  # answers to 8 connections, each with another statement of the same name
    "kept": 8,  # of which each had a setting of its own,
    "words": 8,  # and one that Postgres does not know
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
async def small_pool_project(running_platform: RunningPlatform) -> AsyncIterator[ServedProject]:
    """A project whose pool is small."""
    async with create_project(running_platform, pgbouncer_settings={"default_pool_size": str(SERVERS)}) as made:
        yield made
        made.delete()


def drive_watched(one: ServedProject, *command: str | Path, **variables: str) -> dict[str, Any]:
    """What the program saw; and whether Postgres saw no more connections than it may."""
    with ServerConnectionMonitor(one) as watch:
        seen = run_client(*command, **variables)
    print(f"{seen.pop('client')}: at most {watch.maximum} server connections in {watch.samples} looks")
    return {**seen, "is_within_its_size": watch.samples > 0 and watch.maximum <= SERVERS}


def drive_client(
    one: ServedProject, *command: str | Path, uri: str = "", address: str = ADDRESS, **variables: str
) -> dict[str, Any]:
    """The same, and the news that it sent."""
    with psycopg.connect(one.uri, autocommit=True, application_name=DIRECT_APPLICATION_NAME) as listener:
        listener.execute("listen news")
        seen = drive_watched(one, *command, uri or get_pooled_uri(one), address, **variables)
        return {**seen, "heard": [note.payload for note in listener.notifies(timeout=30, stop_after=1)]}


def saw(*, is_bound: bool, **more: Any) -> dict[str, Any]:
    return {**SEEN, "heard": ["heard"], "is_within_its_size": True, "is_bound": is_bound, **more}


def test_psql(small_pool_project: ServedProject) -> None:
    """With the libpq of this machine."""
    seen = drive_client(small_pool_project, *python_command("pooled.drive_psql"), PSQL=str(psql.find_system_psql()))
    assert seen == saw(is_bound=True)


def test_psql_that_prepares(small_pool_project: ServedProject) -> None:
    """A newer one, which has no TLS, at the local door; its options name the pooled host."""
    given = small_pool_project.creation_response["connection_uris"][0]["connection_parameters"]
    folder = quote(str(small_pool_project.settings.sockets / "door"), safe="")
    who = f"{given['role']}:{quote(given['password'])}"
    uri = f"postgresql://{who}@{folder}/{given['database']}?options=endpoint%3D{small_pool_project.endpoint_id}-pooler"
    seen = drive_client(
        small_pool_project, *python_command("pooled.drive_psql"), uri=uri, address="", PSQL=str(psql.BUNDLED_PSQL)
    )
    assert seen == saw(is_bound=False)


@pytest.mark.parametrize("more", ["sslmode=require", "max_protocol_version=latest", "sslnegotiation=direct"])
def test_psycopg(small_pool_project: ServedProject, more: str) -> None:
    """With a libpq of its own, of another major, in the ways that are new in it."""
    seen = drive_client(
        small_pool_project, *python_command("pooled.drive_psycopg"), uri=f"{get_pooled_uri(small_pool_project)}&{more}"
    )
    assert seen == saw(is_bound=True, pipelined=90)


def test_asyncpg(small_pool_project: ServedProject) -> None:
    assert drive_client(small_pool_project, *python_command("pooled.drive_asyncpg")) == saw(
        is_bound=False, right_in_its_pool=200
    )


def test_node_postgres(small_pool_project: ServedProject, node_modules: Path) -> None:
    seen = drive_client(small_pool_project, *node_command("pooled/drive_node_postgres.mjs", node_modules))
    assert seen == saw(is_bound=True, right_in_its_pool=200)


def test_postgres_js(small_pool_project: ServedProject, node_modules: Path) -> None:
    seen = drive_client(small_pool_project, *node_command("pooled/drive_postgres_js.mjs", node_modules))
    assert seen == saw(is_bound=False, right_in_its_pool=200)


def test_jdbc(small_pool_project: ServedProject, tmp_path: Path) -> None:
    """Drivers before 42.7.4, as Debian's, cannot bind."""
    seen = drive_client(
        small_pool_project, *compile_jdbc_program("pooled/DriveJdbc.java", get_pooled_uri(small_pool_project), tmp_path)
    )
    assert {**seen, "is_bound": False} == saw(is_bound=False)


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_sqlalchemy(small_pool_project: ServedProject, driver: str) -> None:
    seen = drive_watched(
        small_pool_project,
        *python_command("pooled.orm_sqlalchemy"),
        get_pooled_uri(small_pool_project),
        ADDRESS,
        driver,
    )
    assert seen == {**SEEN_BY_ORM, "is_within_its_size": True}


@pytest.mark.parametrize("driver", ["postgres.js", "node-postgres"])
def test_drizzle(small_pool_project: ServedProject, node_modules: Path, driver: str) -> None:
    seen = drive_watched(
        small_pool_project,
        *node_command("pooled/orm_drizzle.mjs", node_modules),
        get_pooled_uri(small_pool_project),
        ADDRESS,
        driver,
    )
    assert seen == {**SEEN_BY_ORM, "is_within_its_size": True}

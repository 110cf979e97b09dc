"""Real clients at the pooled host, with their default settings. All run the same actions and get the same results.

`pooled/` has a program for each client. The pool has fewer server connections than a program has clients, so
server connections are shared all the time.
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

POOL_SIZE = 3
EXPECTED: dict[str, Any] = {
    **EXPECTED_AT_BOTH_HOSTS,
    "right": 200,  # correct results on 8 connections, each with its own statement of the same name
    "kept": 8,  # connections that kept their own value of a Postgres setting
    "words": 8,  # connections that kept their own value of a custom setting
    "listened": ["0A000", True],  # the error names the direct host
    "temporary": ["0A000", 3, "42P01"],  # outside a transaction, inside, after it
    "locked": ["0A000", False, True],  # session lock; transaction lock while another session holds it, and afterwards
}
EXPECTED_OF_ORMS = {
    "accounts": 10,
    "total": 10_000,  # unchanged by transfers
    "balanced": 10,  # accounts whose entries add up to their balance
    "entries": 320,  # two for each of 8 transfers of 20 workers
    "versions": 330,
    "regretted": 40,
    "caught": 20,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small_pool_project(running_platform: RunningPlatform) -> AsyncIterator[ServedProject]:
    """A project whose pools have few server connections."""
    async with create_project(running_platform, pgbouncer_settings={"default_pool_size": str(POOL_SIZE)}) as project:
        yield project
        project.delete()


def run_monitored(project: ServedProject, *command: str | Path, **variables: str) -> dict[str, Any]:
    """Runs a program. Adds to its results whether Postgres had no more server connections than the pool size."""
    with ServerConnectionMonitor(project) as monitor:
        results = run_client(*command, **variables)
    print(f"{results.pop('client')}: at most {monitor.maximum} server connections in {monitor.samples} samples")
    return {**results, "is_within_its_size": monitor.samples > 0 and monitor.maximum <= POOL_SIZE}


def run_with_listener(
    project: ServedProject, *command: str | Path, uri: str = "", address: str = ADDRESS, **variables: str
) -> dict[str, Any]:
    """Runs a program, and adds to its results the notifications that it sent."""
    with psycopg.connect(project.uri, autocommit=True, application_name=DIRECT_APPLICATION_NAME) as listener:
        listener.execute("listen news")
        results = run_monitored(project, *command, uri or get_pooled_uri(project), address, **variables)
        return {
            **results,
            "heard": [notification.payload for notification in listener.notifies(timeout=30, stop_after=1)],
        }


def expect(*, is_bound: bool, **options: Any) -> dict[str, Any]:
    return {**EXPECTED, "heard": ["heard"], "is_within_its_size": True, "is_bound": is_bound, **options}


def test_psql(small_pool_project: ServedProject) -> None:
    """Uses the libpq of this machine."""
    results = run_with_listener(
        small_pool_project, *python_command("pooled.drive_psql"), PSQL=str(psql.find_system_psql())
    )
    assert results == expect(is_bound=True)


def test_psql_that_prepares(small_pool_project: ServedProject) -> None:
    """A newer psql without TLS connects to the local socket of the gateway; its options select the pooled endpoint."""
    parameters = small_pool_project.creation_response["connection_uris"][0]["connection_parameters"]
    folder = quote(str(small_pool_project.settings.sockets / "door"), safe="")
    login = f"{parameters['role']}:{quote(parameters['password'])}"
    uri = f"postgresql://{login}@{folder}/{parameters['database']}?options=endpoint%3D{small_pool_project.endpoint_id}-pooler"
    results = run_with_listener(
        small_pool_project, *python_command("pooled.drive_psql"), uri=uri, address="", PSQL=str(psql.BUNDLED_PSQL)
    )
    assert results == expect(is_bound=False)


@pytest.mark.parametrize("options", ["sslmode=require", "max_protocol_version=latest", "sslnegotiation=direct"])
def test_psycopg(small_pool_project: ServedProject, options: str) -> None:
    """Uses the libpq of psycopg, of another major version, with its new options."""
    results = run_with_listener(
        small_pool_project,
        *python_command("pooled.drive_psycopg"),
        uri=f"{get_pooled_uri(small_pool_project)}&{options}",
    )
    assert results == expect(is_bound=True, pipelined=90)


def test_asyncpg(small_pool_project: ServedProject) -> None:
    assert run_with_listener(small_pool_project, *python_command("pooled.drive_asyncpg")) == expect(
        is_bound=False, right_in_its_pool=200
    )


def test_node_postgres(small_pool_project: ServedProject, node_modules: Path) -> None:
    results = run_with_listener(small_pool_project, *node_command("pooled/drive_node_postgres.mjs", node_modules))
    assert results == expect(is_bound=True, right_in_its_pool=200)


def test_postgres_js(small_pool_project: ServedProject, node_modules: Path) -> None:
    results = run_with_listener(small_pool_project, *node_command("pooled/drive_postgres_js.mjs", node_modules))
    assert results == expect(is_bound=False, right_in_its_pool=200)


def test_jdbc(small_pool_project: ServedProject, tmp_path: Path) -> None:
    """Drivers before 42.7.4, such as that of Debian, have no channel binding."""
    results = run_with_listener(
        small_pool_project, *compile_jdbc_program("pooled/DriveJdbc.java", get_pooled_uri(small_pool_project), tmp_path)
    )
    assert {**results, "is_bound": False} == expect(is_bound=False)


@pytest.mark.parametrize("driver", [pytest.param("asyncpg", marks=pytest.mark.long), "psycopg"])
def test_sqlalchemy(small_pool_project: ServedProject, driver: str) -> None:
    results = run_monitored(
        small_pool_project,
        *python_command("pooled.orm_sqlalchemy"),
        get_pooled_uri(small_pool_project),
        ADDRESS,
        driver,
    )
    assert results == {**EXPECTED_OF_ORMS, "is_within_its_size": True}


@pytest.mark.parametrize("driver", ["postgres.js", pytest.param("node-postgres", marks=pytest.mark.long)])
def test_drizzle(small_pool_project: ServedProject, node_modules: Path, driver: str) -> None:
    results = run_monitored(
        small_pool_project,
        *node_command("pooled/orm_drizzle.mjs", node_modules),
        get_pooled_uri(small_pool_project),
        ADDRESS,
        driver,
    )
    assert results == {**EXPECTED_OF_ORMS, "is_within_its_size": True}

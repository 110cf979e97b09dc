"""Real clients through the gateway. All run the same actions and get the same results.

Clients that support channel binding use it. `clients/` has a program for each client. The programs resolve the host
themselves, because some machines do not resolve names under `localhost`.
"""

from pathlib import Path
from typing import Any

import pytest

from journeys import psql
from journeys.client_programs import (
    EXPECTED_AT_BOTH_HOSTS,
    compile_jdbc_program,
    node_command,
    python_command,
    run_client,
)
from journeys.served_project import ADDRESS, ServedProject

EXPECTED: dict[str, Any] = {
    **EXPECTED_AT_BOTH_HOSTS,
    "prepared": [1, 4, 9, 16, 25, 36, 49, 64, 81, 100],
    "statements": 1,
    "notified": ["one", "two"],
}


def run_program(project: ServedProject, *command: str | Path, uri: str = "", **variables: str) -> dict[str, Any]:
    """Runs a program. Returns its results without the name of the client."""
    results = run_client(*command, uri or project.api_uri, ADDRESS, **variables)
    print(results.pop("client"))
    return results


def test_psql(module_project: ServedProject) -> None:
    """Uses the libpq of this machine."""
    results = run_program(module_project, *python_command("clients.drive_psql"), PSQL=str(psql.find_system_psql()))
    assert results == {**EXPECTED, "is_bound": True}


@pytest.mark.parametrize(
    "options", ["sslmode=require", "max_protocol_version=latest", "sslnegotiation=direct", "sslmode=verify-full"]
)
def test_psycopg(module_project: ServedProject, options: str) -> None:
    """Uses the libpq of psycopg, of another major version, with its new options."""
    uri = f"{module_project.api_uri}&{options}&sslrootcert={module_project.settings.home / 'ca.crt'}"
    assert run_program(module_project, *python_command("clients.drive_psycopg"), uri=uri) == {
        **EXPECTED,
        "is_bound": True,
    }


def test_asyncpg(module_project: ServedProject) -> None:
    assert run_program(module_project, *python_command("clients.drive_asyncpg")) == {**EXPECTED, "is_bound": False}


def test_node_postgres(module_project: ServedProject, node_modules: Path) -> None:
    results = run_program(module_project, *node_command("clients/drive_node_postgres.mjs", node_modules))
    assert results == {**EXPECTED, "is_bound": True}


def test_postgres_js(module_project: ServedProject, node_modules: Path) -> None:
    results = run_program(module_project, *node_command("clients/drive_postgres_js.mjs", node_modules))
    assert results == {**EXPECTED, "is_bound": False}


def test_jdbc(module_project: ServedProject, tmp_path: Path) -> None:
    """Drivers before 42.7.4, such as that of Debian, have no channel binding."""
    results = run_program(
        module_project, *compile_jdbc_program("clients/DriveJdbc.java", module_project.api_uri, tmp_path)
    )
    assert {**results, "is_bound": False} == {**EXPECTED, "is_bound": False}

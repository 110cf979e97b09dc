"""Real clients through the gateway: each does the same, sees the same, and binds its channel where it can.

`clients/` has a program for each. They resolve the host themselves, because a bare machine knows no names
under `localhost`.
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

SEEN: dict[str, Any] = {
    **EXPECTED_AT_BOTH_HOSTS,
    "prepared": [1, 4, 9, 16, 25, 36, 49, 64, 81, 100],
    "statements": 1,
    "notified": ["one", "two"],
}


def drive_client(one: ServedProject, *command: str | Path, uri: str = "", **variables: str) -> dict[str, Any]:
    """What the program saw, and whether it bound its channel."""
    seen = run_client(*command, uri or one.api_uri, ADDRESS, **variables)
    print(seen.pop("client"))
    return seen


def test_psql(module_project: ServedProject) -> None:
    """With the libpq of this machine."""
    seen = drive_client(module_project, *python_command("clients.drive_psql"), PSQL=str(psql.find_system_psql()))
    assert seen == {**SEEN, "is_bound": True}


@pytest.mark.parametrize(
    "more", ["sslmode=require", "max_protocol_version=latest", "sslnegotiation=direct", "sslmode=verify-full"]
)
def test_psycopg(module_project: ServedProject, more: str) -> None:
    """With a libpq of its own, of another major, in the ways that are new in it."""
    uri = f"{module_project.api_uri}&{more}&sslrootcert={module_project.settings.home / 'ca.crt'}"
    assert drive_client(module_project, *python_command("clients.drive_psycopg"), uri=uri) == {**SEEN, "is_bound": True}


def test_asyncpg(module_project: ServedProject) -> None:
    assert drive_client(module_project, *python_command("clients.drive_asyncpg")) == {**SEEN, "is_bound": False}


def test_node_postgres(module_project: ServedProject, node_modules: Path) -> None:
    seen = drive_client(module_project, *node_command("clients/drive_node_postgres.mjs", node_modules))
    assert seen == {**SEEN, "is_bound": True}


def test_postgres_js(module_project: ServedProject, node_modules: Path) -> None:
    seen = drive_client(module_project, *node_command("clients/drive_postgres_js.mjs", node_modules))
    assert seen == {**SEEN, "is_bound": False}


def test_jdbc(module_project: ServedProject, tmp_path: Path) -> None:
    """Drivers before 42.7.4, as Debian's, cannot bind."""
    seen = drive_client(
        module_project, *compile_jdbc_program("clients/DriveJdbc.java", module_project.api_uri, tmp_path)
    )
    assert {**seen, "is_bound": False} == {**SEEN, "is_bound": False}

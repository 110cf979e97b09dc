"""Real clients through the gateway: each does the same, sees the same, and binds its channel where it can.

`clients/` has a program for each. They resolve the host themselves, because a bare machine knows no names
under `localhost`.
"""

from pathlib import Path
from typing import Any

import pytest

from journeys import psql
from journeys.programs import SEEN_AT_EITHER, drive, jdbc, node, python
from journeys.served import ADDRESS, Served

SEEN: dict[str, Any] = {
    **SEEN_AT_EITHER,
    "prepared": [1, 4, 9, 16, 25, 36, 49, 64, 81, 100],
    "statements": 1,
    "notified": ["one", "two"],
}


def drive_client(one: Served, *command: str | Path, uri: str = "", **variables: str) -> dict[str, Any]:
    """What the program saw, and whether it bound its channel."""
    seen = drive(*command, uri or one.given_uri, ADDRESS, **variables)
    print(seen.pop("client"))
    return seen


def test_psql(project: Served) -> None:
    """With the libpq of this machine."""
    seen = drive_client(project, *python("clients.drive_psql"), PSQL=str(psql.of_this_machine()))
    assert seen == {**SEEN, "is_bound": True}


@pytest.mark.parametrize(
    "more", ["sslmode=require", "max_protocol_version=latest", "sslnegotiation=direct", "sslmode=verify-full"]
)
def test_psycopg(project: Served, more: str) -> None:
    """With a libpq of its own, of another major, in the ways that are new in it."""
    uri = f"{project.given_uri}&{more}&sslrootcert={project.settings.home / 'ca.crt'}"
    assert drive_client(project, *python("clients.drive_psycopg"), uri=uri) == {**SEEN, "is_bound": True}


def test_asyncpg(project: Served) -> None:
    assert drive_client(project, *python("clients.drive_asyncpg")) == {**SEEN, "is_bound": False}


def test_node_postgres(project: Served, node_modules: Path) -> None:
    seen = drive_client(project, *node("clients/drive_node_postgres.mjs", node_modules))
    assert seen == {**SEEN, "is_bound": True}


def test_postgres_js(project: Served, node_modules: Path) -> None:
    seen = drive_client(project, *node("clients/drive_postgres_js.mjs", node_modules))
    assert seen == {**SEEN, "is_bound": False}


def test_jdbc(project: Served, tmp_path: Path) -> None:
    """Drivers before 42.7.4, as Debian's, cannot bind."""
    seen = drive_client(project, *jdbc("clients/DriveJdbc.java", project.given_uri, tmp_path))
    assert {**seen, "is_bound": False} == {**SEEN, "is_bound": False}

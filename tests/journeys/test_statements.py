"""Statements say the same through the gateway as at the compute's own socket, to the letter.

Each file of `statements/` is run twice by psql, each time on a new database. All it says is compared, rows,
tags, notices, errors with all their fields, and the checksums of files that it wrote.
"""

from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from journeys import psql
from journeys.psql import run_psql_file
from journeys.served_project import ServedProject

FILES = sorted((Path(__file__).parent / "statements").glob("*.sql"))
NEWER = "extended"  # needs commands that psql has since 18
DATABASE = "statements"


def at_the_socket(one: ServedProject, database: str) -> str:
    folder = quote(str(one.settings.sockets / one.endpoint_id), safe="")
    return f"postgresql://{_role(one)}@{folder}/{database}"


def at_the_door(one: ServedProject) -> str:
    """The gateway's own socket, for clients without TLS."""
    password = one.creation_response["connection_uris"][0]["connection_parameters"]["password"]
    folder = quote(str(one.settings.sockets / "door"), safe="")
    return f"postgresql://{_role(one)}:{quote(password)}@{folder}/{DATABASE}?options=endpoint%3D{one.endpoint_id}"


def through_tls(one: ServedProject) -> str:
    return one.uri.replace("/neondb?", f"/{DATABASE}?")


def _role(one: ServedProject) -> str:
    return str(one.creation_response["connection_uris"][0]["connection_parameters"]["role"])


def _new_database(one: ServedProject) -> None:
    with psycopg.connect(at_the_socket(one, "neondb"), autocommit=True) as session:
        session.execute(f"drop database if exists {DATABASE}")
        session.execute(f"create database {DATABASE}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_same_is_said(module_project: ServedProject, file: Path, tmp_path: Path) -> None:
    program = psql.BUNDLED_PSQL if file.stem == NEWER else psql.find_system_psql()
    through = at_the_door(module_project) if file.stem == NEWER else through_tls(module_project)
    said = []
    for number, uri in enumerate((at_the_socket(module_project, DATABASE), through)):
        _new_database(module_project)
        said.append(run_psql_file(uri, file, tmp_path / str(number), psql=program).splitlines())
    assert said[1] == said[0]
    assert len(said[0]) > 100  # psql went through all of it


def test_there_are_hundreds() -> None:
    lines = [line for file in FILES for line in file.read_text().splitlines()]
    assert sum(line.endswith((";", "\\g", "\\gset")) for line in lines) > 800

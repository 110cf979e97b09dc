"""psql prints exactly the same through the gateway as at the socket of the compute.

psql runs each file of `statements/` twice, each time in a new database. The test compares the complete output: rows,
command tags, notices, errors with all fields, and checksums of written files.
"""

from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from journeys import psql
from journeys.psql import run_psql_file
from journeys.served_project import ServedProject

FILES = sorted((Path(__file__).parent / "statements").glob("*.sql"))
NEEDS_PSQL_18 = "extended"  # uses commands of psql 18
DATABASE = "statements"
QUERY_ID = " Query Identifier: "  # in EXPLAIN VERBOSE; it depends on the numbers of the tables, which are new each time


def compute_uri(project: ServedProject, database: str) -> str:
    folder = quote(str(project.settings.sockets / project.endpoint_id), safe="")
    return f"postgresql://{_get_role(project)}@{folder}/{database}"


def gateway_socket_uri(project: ServedProject) -> str:
    """Returns the URI of the local socket of the gateway, which serves clients without TLS."""
    password = project.creation_response["connection_uris"][0]["connection_parameters"]["password"]
    folder = quote(str(project.settings.sockets / "door"), safe="")
    login = f"{_get_role(project)}:{quote(password)}"
    return f"postgresql://{login}@{folder}/{DATABASE}?options=endpoint%3D{project.endpoint_id}"


def gateway_uri(project: ServedProject) -> str:
    return project.uri.replace("/neondb?", f"/{DATABASE}?")


def _get_role(project: ServedProject) -> str:
    return str(project.creation_response["connection_uris"][0]["connection_parameters"]["role"])


def _recreate_database(project: ServedProject) -> None:
    with psycopg.connect(compute_uri(project, "neondb"), autocommit=True) as session:
        session.execute(f"drop database if exists {DATABASE}")
        session.execute(f"create database {DATABASE}")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_same_is_said(module_project: ServedProject, file: Path, tmp_path: Path) -> None:
    program = psql.BUNDLED_PSQL if file.stem == NEEDS_PSQL_18 else psql.find_system_psql()
    through_gateway = gateway_socket_uri(module_project) if file.stem == NEEDS_PSQL_18 else gateway_uri(module_project)
    outputs = []
    for number, uri in enumerate((compute_uri(module_project, DATABASE), through_gateway)):
        _recreate_database(module_project)
        lines = run_psql_file(uri, file, tmp_path / str(number), psql=program).splitlines()
        outputs.append([line for line in lines if not line.startswith(QUERY_ID)])
    assert outputs[1] == outputs[0]
    assert len(outputs[0]) > 100  # psql ran the whole file


def test_there_are_hundreds() -> None:
    lines = [line for file in FILES for line in file.read_text().splitlines()]
    assert sum(line.endswith((";", "\\g", "\\gset")) for line in lines) > 800

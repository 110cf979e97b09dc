"""`bough psql`, and the lines of `up` that people paste: real psql, by the socket and by TLS."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bough.cli import psql
from support.platform import install_templates, temporary_folder
from support.program import ONE_WORKER, Program, Result, make_environment


def psql_of(bough: Program, *arguments: str, **variables: str) -> Result:
    return bough.run("psql", *arguments, "--home", str(bough.home), **variables)


def create(said: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{said['api_url']}/projects",
        data=json.dumps({"project": {"name": name, **more}}).encode(),
        headers={"Authorization": f"Bearer {said['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        made: dict[str, Any] = json.load(answer)
    return made


def test_a_platform_that_does_not_run_says_so(bough: Program) -> None:
    done = psql_of(bough)
    assert done.returncode == 1
    assert done.stderr.startswith(f"bough: Bough does not run in {bough.home}; `")


def test_a_project_is_named_or_the_only_one(bough: Program) -> None:
    said = bough.up()
    done = psql_of(bough, "-c", "select 1")
    assert (done.returncode, done.stderr) == (
        1,
        "bough: There is no project yet; `bough up` shows how to create one.\n",
    )
    first = create(said, "first")
    project, branch = first["project"]["id"], first["branch"]["id"]
    for words in ([], ["first"], [project], ["first", "--branch", branch]):
        done = psql_of(bough, *words, "-Atc", "select current_user || '@' || current_database()")
        assert (done.returncode, done.stdout) == (0, "neondb_owner@neondb\n"), done.stderr

    second = create(said, "second")["project"]["id"]
    done = psql_of(bough, "-c", "select 1")
    listed = f"There are second ({second}), first ({project})."
    assert (done.returncode, done.stderr) == (1, f"bough: Which project? Name one. {listed}\n")
    done = psql_of(bough, "secnd", "-c", "select 1")
    assert (done.returncode, done.stderr) == (1, f"bough: There is no project 'secnd'. {listed}\n")
    create(said, "second")
    done = psql_of(bough, "second", "-c", "select 1")
    assert done.stderr.startswith("bough: Several projects have that name; give the id. There are second (")
    assert psql_of(bough, second, "-c", "select 1").returncode == 0


@dataclass(frozen=True)
class Running:
    bough: Program
    said: dict[str, Any]
    made: dict[str, Any]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """A platform with a project `first`, for those who leave them as they were."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", ONE_WORKER)
        said = program.up()
        yield Running(program, said, create(said, "first"))
        program.clean_up()


def test_psql_has_its_own_options_input_and_exit_status(running: Running) -> None:
    bough = running.bough
    assert psql_of(bough, "first", "-c", "select bad").returncode == 1
    missing = psql_of(bough, "first", "-v", "ON_ERROR_STOP=1", "-f", "/no/such/file")
    assert (missing.returncode, "/no/such/file" in missing.stderr) == (1, True)
    done = psql_of(bough, "first", "-v", "word=tree", "-At", "-c", "select 1", "-c", "select 2")
    assert done.stdout == "1\n2\n"
    read = subprocess.run(
        [sys.executable, "-m", "bough.cli.main", "psql", "first", "-At", "--home", str(bough.home)],
        input="select 'from', 'input';\n\\q\n",
        env=make_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout == "from|input\n"
    done = psql_of(bough, "first", "--role", "nobody", "-c", "select 1")
    assert (done.returncode, done.stderr) == (
        1,
        "bough: The project 'first' has no role 'nobody' or no database 'neondb' there; "
        "name others with --role and --database.\n",
    )
    assert psql_of(bough, "first", "--branch", "twig", "-c", "select 1").stderr.startswith(
        "bough: There is no branch 'twig' in the project. There are main (br-"
    )


def test_a_branch_is_found_by_its_name_or_id_and_may_ask_for_the_password(running: Running) -> None:
    bough, said, made = running.bough, running.said, running.made
    headers = {"Authorization": f"Bearer {said['api_key']}"}
    api = httpx2.Client(base_url=said["api_url"], headers=headers, timeout=60, verify=False)
    body = {"branch": {"name": "twig"}, "endpoints": [{"type": "read_write"}]}
    branch = api.post(f"/projects/{made['project']['id']}/branches", json=body).raise_for_status().json()
    for name in ("twig", branch["branch"]["id"]):
        done = psql_of(bough, "first", "--branch", name, "-Atc", "select 7")
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
    endpoint = f"/projects/{made['project']['id']}/endpoints/{branch['endpoints'][0]['id']}"
    api.patch(endpoint, json={"endpoint": {"passwordless_access": False}}).raise_for_status()
    asked = psql_of(bough, "first", "--branch", "twig", "-w", "-Atc", "select 7")
    assert (asked.returncode, "no password supplied" in asked.stderr) == (2, True), asked.stderr
    password = branch["roles"][0]["password"]
    given = psql_of(bough, "first", "--branch", "twig", "-w", "-Atc", "select 7", PGPASSWORD=password)
    assert (given.returncode, given.stdout) == (0, "7\n"), given.stderr
    api.close()


def test_a_branch_that_is_only_looked_at_is_opened_by_its_replica(running: Running) -> None:
    bough, said, made = running.bough, running.said, running.made
    headers = {"Authorization": f"Bearer {said['api_key']}"}
    with httpx2.Client(base_url=said["api_url"], headers=headers, timeout=60, verify=False) as api:
        for name, endpoints in (("looked at", [{"type": "read_only"}]), ("bare", [])):
            body = {"branch": {"name": name}, "endpoints": endpoints}
            api.post(f"/projects/{made['project']['id']}/branches", json=body).raise_for_status()
    done = psql_of(bough, "first", "--branch", "looked at", "-Atc", "select 7", "-c", "create table t ()")
    assert (done.returncode, done.stdout) == (1, "7\n"), done.stderr
    assert "cannot execute CREATE TABLE in a read-only transaction" in done.stderr
    bare = psql_of(bough, "first", "--branch", "bare", "-Atc", "select 7")
    assert bare.stderr.startswith("bough: The branch has no endpoint yet")


def test_other_names_and_settings_of_other_servers_do_not_get_in_the_way(running: Running) -> None:
    names = {"role_name": "o'hara: \\ x", "database_name": "it's = mine"}
    create(running.said, "odd", branch=names)
    elsewhere = {"PGHOST": "nowhere.invalid", "PGSSLMODE": "verify-full", "PGCHANNELBINDING": "require"}
    done = psql_of(
        running.bough,
        "odd",
        *("--role", names["role_name"], "--database", names["database_name"]),
        *("-Atc", "select current_user || '|' || current_database()"),
        **elsewhere,
        PGOPTIONS="-c bad",
        PGSERVICE="none",
    )
    assert (done.returncode, done.stdout) == (0, f"{names['role_name']}|{names['database_name']}\n"), done.stderr


@pytest.mark.parametrize("from_path", [True, False])
def test_the_password_is_in_no_list_of_processes(running: Running, tmp_path: Path, from_path: bool) -> None:
    password = running.made["connection_uris"][0]["connection_parameters"]["password"]
    if from_path and shutil.which("psql") is None:
        pytest.skip("this test needs psql on the PATH")
    variables = {} if from_path else {"PATH": _path_without_psql(tmp_path)}
    told = "\\! tr '\\0' '\\n' < /proc/$PPID/cmdline; tr '\\0' '\\n' < /proc/$PPID/environ"
    done = psql_of(running.bough, "first", "-c", told, **variables)
    assert done.returncode == 0, done.stderr
    assert "endpoint=" in done.stdout
    assert password not in done.stdout
    assert (str(psql.__file__).split("/src/")[0] in done.stdout) or from_path


def _path_without_psql(folder: Path) -> str:
    here = folder / "bin"
    here.mkdir()
    for name in ("sh", "tr"):
        (here / name).symlink_to(shutil.which(name) or name)
    return str(here)


def test_the_lines_of_up_work_when_they_are_pasted(bough: Program) -> None:
    """The hosts are kept in a file of this test's own, which no resolver reads: psql is told the address."""
    if shutil.which("psql") is None or shutil.which("curl") is None:
        pytest.skip("this test needs psql and curl on the PATH")
    install_templates(bough.home)
    first = bough("up", "--detach", *bough.port_arguments())
    assert first.returncode == 0, first.stderr
    _paste(next(text for text in _pasteable(first.stdout) if "Content-Type" in text))
    by_name = next(text for text in _pasteable(first.stdout) if "psql first" in text)
    assert "9" in _paste(f"{by_name} -Atc 'select 9'")
    assert bough("down").returncode == 0

    again = bough("up", "--detach", *bough.port_arguments())
    lines = [text for text in _pasteable(again.stdout) if "psql" in text]
    assert "channel_binding=require" in lines[0]
    for line in lines:
        assert _paste(f"{line} -Atc 'select 9'") == "9\n"


def _pasteable(said: str) -> list[str]:
    return [line.strip() for line in said.replace("\\\n", " ").splitlines() if line.startswith("  ")]


def _paste(line: str) -> str:
    done = subprocess.run(
        ["sh", "-c", line], env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{shlex.quote(line)}\n{done.stderr}"
    return done.stdout

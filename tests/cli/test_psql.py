"""`bough psql`, and the commands that `up` prints: real psql, through the local socket and with TLS."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bough.cli import psql
from support.platform import install_templates, temporary_folder
from support.program import ONE_WORKER, Program, Result, create_project, make_environment


def run_psql(bough: Program, *arguments: str, **variables: str) -> Result:
    return bough.run("psql", *arguments, "--home", str(bough.home), **variables)


def test_a_platform_that_does_not_run_says_so(bough: Program) -> None:
    done = run_psql(bough)
    assert done.returncode == 1
    assert done.stderr.startswith(f"bough: Bough is not running in {bough.home}; start it with `")


def test_a_project_is_named_or_the_only_one(bough: Program) -> None:
    up_output = bough.up()
    done = run_psql(bough, "-c", "select 1")
    assert (done.returncode, done.stderr) == (
        1,
        "bough: There is no project yet; `bough up` shows how to create one.\n",
    )
    first = create_project(up_output, "first")
    project, branch = first["project"]["id"], first["branch"]["id"]
    for arguments in ([], ["first"], [project], ["first", "--branch", branch]):
        done = run_psql(bough, *arguments, "-Atc", "select current_user || '@' || current_database()")
        assert (done.returncode, done.stdout) == (0, "neondb_owner@neondb\n"), done.stderr

    second = create_project(up_output, "second")["project"]["id"]
    done = run_psql(bough, "-c", "select 1")
    listed = f"Projects: second ({second}), first ({project})."
    assert (done.returncode, done.stderr) == (1, f"bough: There are several projects; name one. {listed}\n")
    done = run_psql(bough, "secnd", "-c", "select 1")
    assert (done.returncode, done.stderr) == (1, f"bough: There is no project 'secnd'. {listed}\n")
    create_project(up_output, "second")
    done = run_psql(bough, "second", "-c", "select 1")
    assert done.stderr.startswith("bough: Several projects have this name; give the id. Projects: second (")
    assert run_psql(bough, second, "-c", "select 1").returncode == 0


@dataclass(frozen=True)
class Running:
    bough: Program
    up_output: dict[str, Any]
    created: dict[str, Any]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """A platform with a project `first`, for tests that do not change them."""
    with temporary_folder(0o755) as folder:
        program = Program(folder / "home", ONE_WORKER)
        up_output = program.up()
        yield Running(program, up_output, create_project(up_output, "first"))
        program.clean_up()


def test_psql_has_its_own_options_input_and_exit_status(running: Running) -> None:
    bough = running.bough
    assert run_psql(bough, "first", "-c", "select bad").returncode == 1
    missing = run_psql(bough, "first", "-v", "ON_ERROR_STOP=1", "-f", "/no/such/file")
    assert (missing.returncode, "/no/such/file" in missing.stderr) == (1, True)
    done = run_psql(bough, "first", "-v", "word=tree", "-At", "-c", "select 1", "-c", "select 2")
    assert done.stdout == "1\n2\n"
    from_input = subprocess.run(
        [sys.executable, "-m", "bough.cli.main", "psql", "first", "-At", "--home", str(bough.home)],
        input="select 'from', 'input';\n\\q\n",
        env=make_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert from_input.stdout == "from|input\n"
    done = run_psql(bough, "first", "--role", "nobody", "-c", "select 1")
    assert (done.returncode, done.stderr) == (
        1,
        "bough: The project 'first' has no role 'nobody' or no database 'neondb'; "
        "choose others with --role and --database.\n",
    )
    assert run_psql(bough, "first", "--branch", "twig", "-c", "select 1").stderr.startswith(
        "bough: There is no branch 'twig' in the project. Branches: main (br-"
    )


def test_a_branch_is_found_by_its_name_or_id_and_may_ask_for_the_password(running: Running) -> None:
    bough, up_output, created = running.bough, running.up_output, running.created
    headers = {"Authorization": f"Bearer {up_output['api_key']}"}
    api = httpx2.Client(base_url=up_output["api_url"], headers=headers, timeout=60, verify=False)
    body = {"branch": {"name": "twig"}, "endpoints": [{"type": "read_write"}]}
    branch = api.post(f"/projects/{created['project']['id']}/branches", json=body).raise_for_status().json()
    for name in ("twig", branch["branch"]["id"]):
        done = run_psql(bough, "first", "--branch", name, "-Atc", "select 7")
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr
    endpoint = f"/projects/{created['project']['id']}/endpoints/{branch['endpoints'][0]['id']}"
    api.patch(endpoint, json={"endpoint": {"passwordless_access": False}}).raise_for_status()
    without_password = run_psql(bough, "first", "--branch", "twig", "-w", "-Atc", "select 7")
    assert (without_password.returncode, "no password supplied" in without_password.stderr) == (2, True)
    password = branch["roles"][0]["password"]
    with_password = run_psql(bough, "first", "--branch", "twig", "-w", "-Atc", "select 7", PGPASSWORD=password)
    assert (with_password.returncode, with_password.stdout) == (0, "7\n"), with_password.stderr
    api.close()


def test_a_branch_that_is_only_looked_at_is_opened_by_its_replica(running: Running) -> None:
    bough, up_output, created = running.bough, running.up_output, running.created
    headers = {"Authorization": f"Bearer {up_output['api_key']}"}
    with httpx2.Client(base_url=up_output["api_url"], headers=headers, timeout=60, verify=False) as api:
        for name, endpoints in (("looked at", [{"type": "read_only"}]), ("bare", [])):
            body = {"branch": {"name": name}, "endpoints": endpoints}
            api.post(f"/projects/{created['project']['id']}/branches", json=body).raise_for_status()
    done = run_psql(bough, "first", "--branch", "looked at", "-Atc", "select 7", "-c", "create table t ()")
    assert (done.returncode, done.stdout) == (1, "7\n"), done.stderr
    assert "cannot execute CREATE TABLE in a read-only transaction" in done.stderr
    bare = run_psql(bough, "first", "--branch", "bare", "-Atc", "select 7")
    assert bare.stderr.startswith("bough: The branch has no endpoint yet")


def test_other_names_and_settings_of_other_servers_do_not_get_in_the_way(running: Running) -> None:
    names = {"role_name": "o'hara: \\ x", "database_name": "it's = mine"}
    create_project(running.up_output, "odd", branch=names)
    elsewhere = {"PGHOST": "nowhere.invalid", "PGSSLMODE": "verify-full", "PGCHANNELBINDING": "require"}
    done = run_psql(
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
    password = running.created["connection_uris"][0]["connection_parameters"]["password"]
    if from_path and shutil.which("psql") is None:
        pytest.skip("this test needs psql on the PATH")
    variables = {} if from_path else {"PATH": _path_without_psql(tmp_path)}
    script = "\\! tr '\\0' '\\n' < /proc/$PPID/cmdline; tr '\\0' '\\n' < /proc/$PPID/environ"
    done = run_psql(running.bough, "first", "-c", script, **variables)
    assert done.returncode == 0, done.stderr
    assert "endpoint=" in done.stdout
    assert password not in done.stdout
    assert (str(psql.__file__).split("/src/")[0] in done.stdout) or from_path


def _path_without_psql(folder: Path) -> str:
    programs = folder / "bin"
    programs.mkdir()
    for name in ("sh", "tr"):
        (programs / name).symlink_to(shutil.which(name) or name)
    return str(programs)


def test_the_lines_of_up_work_when_they_are_pasted(bough: Program) -> None:
    """The host names do not resolve here, so psql gets the address."""
    if shutil.which("psql") is None or shutil.which("curl") is None:
        pytest.skip("this test needs psql and curl on the PATH")
    install_templates(bough.home)
    first = bough("up", "--detach", *bough.port_arguments())
    assert first.returncode == 0, first.stderr
    _run_command(next(text for text in _printed_commands(first.stdout) if "Content-Type" in text))
    by_name = next(text for text in _printed_commands(first.stdout) if "psql first" in text)
    assert "9" in _run_command(f"{by_name} -Atc 'select 9'")
    assert bough("down").returncode == 0

    again = bough("up", "--detach", *bough.port_arguments())
    lines = [text for text in _printed_commands(again.stdout) if "psql" in text]
    assert "channel_binding=require" in lines[0]
    for line in lines:
        assert _run_command(f"{line} -Atc 'select 9'") == "9\n"


def _printed_commands(text: str) -> list[str]:
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.startswith("  ")]


def _run_command(line: str) -> str:
    done = subprocess.run(
        ["sh", "-c", line], env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{shlex.quote(line)}\n{done.stderr}"
    return done.stdout

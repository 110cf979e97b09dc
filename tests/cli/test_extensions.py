"""Extensions that the operator adds with the program, while the platform runs."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bough.config import default_cache
from bough.engine.local.installs import npm_build
from support.extension_builds import EXTENSION, fetch_debian
from support.install_cache import copy_cache
from support.program import ONE_WORKER, Program, create_project, wait_until


@pytest.fixture
def bough(folder: Path) -> Iterator[Program]:
    with copy_cache(fetch_debian()) as cache:
        program = Program(folder / "home", {**ONE_WORKER, "BOUGH_CACHE": str(cache)})
        yield program
        program.clean_up()


def get(up_output: dict[str, Any], path: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {up_output['api_key']}"}
    with urllib.request.urlopen(urllib.request.Request(up_output["api_url"] + path, headers=headers)) as response:
        body: dict[str, Any] = json.load(response)
    return body


def query(bough: Program, project: str, sql: str) -> subprocess.CompletedProcess[str]:
    return bough("psql", project, "--", "-qAt", "-c", sql)


def run_json(bough: Program, *arguments: str) -> dict[str, Any]:
    done = bough.run(*arguments[:2], "--home", str(bough.home), *arguments[2:], "--json")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def list_states(bough: Program, *options: str) -> dict[str, str]:
    return {each["name"]: each["state"] for each in run_json(bough, "extensions", "list", *options)["extensions"]}


def offered(bough: Program, project: str) -> dict[str, dict[str, Any]]:
    extensions = get(bough.up_output, f"/bough/extensions?project_id={project}")["extensions"]
    return {each["name"]: each for each in extensions}


@pytest.mark.long
def test_an_extension_for_one_project_and_then_for_all(bough: Program) -> None:
    up = bough.up()
    one, other = [create_project(up, name)["project"]["id"] for name in ("one", "other")]
    wait_until(lambda: bough.status()["computes_running"] == 2 and bough.status()["operations_open"] == 0)
    states = list_states(bough)
    assert (states["vector"], states["wal2json"], states[EXTENSION]) == ("default", "default", "available")
    assert offered(bough, one)["vector"]["is_default"]
    assert EXTENSION not in offered(bough, one)

    added = run_json(bough, "extensions", "add", EXTENSION, "--project", one, "--restart")
    assert added["restarted"] == 1
    assert [(change["project_id"], change["added"]) for change in added["changes"]] == [(one, [EXTENSION])]
    assert query(bough, one, f"create extension {EXTENSION}").returncode == 0
    assert "is not part of this build" in query(bough, other, f"create extension {EXTENSION}").stderr
    entry = offered(bough, one)[EXTENSION]
    assert (entry["is_allowed"], entry["is_default"], "preload_library" in entry) == (True, False, False)
    assert EXTENSION not in offered(bough, other)
    assert list_states(bough, "--project", one)[EXTENSION] == "added"
    assert list_states(bough, "--project", other)[EXTENSION] == "available"

    everyone = run_json(bough, "extensions", "add", EXTENSION)
    assert (everyone["restarted"], everyone["outdated"]) == (0, 1)
    assert query(bough, other, f"create extension {EXTENSION}").returncode != 0, "from its next start"
    assert run_json(bough, "extensions", "add", EXTENSION, "--restart")["restarted"] == 1
    assert query(bough, other, f"create extension {EXTENSION}; drop extension {EXTENSION}").returncode == 0

    for command in (("extensions", "remove", EXTENSION), ("postgres", "rollback", "17")):
        refused = bough.run(*command[:2], "--home", str(bough.home), *command[2:])
        assert refused.returncode == 1
        assert f"{EXTENSION} 4" in refused.stderr
        assert "in the branch main (br-" in refused.stderr
        assert f"of the project {one}." in refused.stderr
        assert other not in refused.stderr
    assert query(bough, one, f"drop extension {EXTENSION}").returncode == 0
    removed = bough.run("extensions", "remove", EXTENSION, "--home", str(bough.home), "--restart")
    assert removed.returncode == 0, removed.stderr
    assert f"Removed {EXTENSION} for Postgres 17" in removed.stdout
    assert "Restarted 2 computes." in removed.stdout
    assert list_states(bough)[EXTENSION] == "available"


def test_what_is_wrong_is_said_with_the_next_step(bough: Program, tmp_path: Path) -> None:
    def refuse(*arguments: str) -> str:
        done = bough.run("extensions", *arguments, "--home", str(bough.home))
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "create it with `bough up`" in refuse("add", EXTENSION)
    bough.home.mkdir()
    assert "There is no project 'absent'" in refuse("add", EXTENSION, "--project", "absent")
    assert "neither a package nor a folder" in refuse("add", str(tmp_path / "absent.deb"))
    assert "contains no control file" in refuse("add", str(tmp_path))
    assert "The catalog has no extension nonsense" in refuse("add", "nonsense")
    assert "was not added" in refuse("remove", EXTENSION)


def test_a_build_from_npm_cannot_be_extended(folder: Path) -> None:
    with copy_cache(npm_build.fetch(17, default_cache())) as cache:
        bough = Program(folder / "home", {"BOUGH_CACHE": str(cache)})
        bough.home.mkdir()
        refused = bough.run("extensions", "add", EXTENSION, "--home", str(bough.home))
    assert refused.returncode == 1
    assert "Set debian_mirror" in refused.stderr
    assert "`bough postgres update`" in refused.stderr

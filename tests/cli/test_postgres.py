"""`bough postgres`: the builds of a running platform, an update to Debian's build, and one step back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bough.config import default_cache
from bough.engine.local.installs import download, npm_build
from bough.engine.local.installs.installs import Install
from support.debian_mirror import DebianMirror, FolderServer, serve_folder
from support.install_cache import add_install, copy_cache
from support.mirror_program import APT, MirrorProgram, list_locked_packages
from support.program import ONE_WORKER, Result, create_running_project, find_free_port, wait_until
from support.requirements import require_root


@pytest.fixture
def npm() -> Install:
    return npm_build.fetch(17, default_cache())


@pytest.fixture
def debian() -> Install:
    return download.fetch_install(17, default_cache())


@pytest.fixture
def mirror(tmp_path: Path) -> DebianMirror:
    made = DebianMirror(tmp_path / "mirror")
    list_locked_packages(made)
    return made


@pytest.fixture
def site(mirror: DebianMirror) -> Iterator[FolderServer]:
    with serve_folder(mirror.folder) as served:
        yield served


@pytest.fixture
def bough(folder: Path, mirror: DebianMirror, site: FolderServer, npm: Install) -> Iterator[MirrorProgram]:
    """A program whose cache contains only the build of npm."""
    with copy_cache(npm) as cache:
        variables = {**ONE_WORKER, "BOUGH_CACHE": str(cache), "NO_PROXY": "127.0.0.1"}
        program = MirrorProgram(folder / "home", variables, fingerprint=mirror.fingerprint, mirror=site.url)
        yield program
        program.clean_up()


def postgres(bough: MirrorProgram, command: str, *arguments: str) -> Result:
    return bough.run("postgres", command, "--home", str(bough.home), *arguments)


def read_json(done: Result) -> dict[str, Any]:
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr
    fields: dict[str, Any] = json.loads(done.stdout)
    return fields


def read_builds(bough: MirrorProgram) -> dict[str, dict[str, Any]]:
    return {build["pin"]: build for build in read_json(postgres(bough, "status", "--json"))["builds"]}


def read_table(done: Result) -> list[list[str]]:
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split() for line in done.stdout.splitlines()]


def assert_refused(done: Result, sentence: str) -> None:
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("bough: ")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_project_moves_to_debians_build_and_back(bough: MirrorProgram, npm: Install, debian: Install) -> None:
    bough.up()
    create_running_project(bough)
    head, *rows = read_table(postgres(bough, "status"))
    assert (head[:2], head[-1]) == (["postgres", "version"], "build")
    [row] = [row for row in rows if row[0] == "npm-17"]
    assert row == ["npm-17", "17.10", "-", "yes", "1", "0", npm.id]
    assert_refused(postgres(bough, "rollback", "17"), "There is no earlier build of Postgres 17 to go back to")

    add_install(Path(bough.variables["BOUGH_CACHE"]), debian)
    updated = read_json(postgres(bough, "update", "--json"))
    changes = {change["pin"]: change for change in updated["changes"]}
    assert changes["npm-17"]["from"] == npm.id
    assert {change["to"] for change in changes.values()} == {debian.id}
    assert "CVE-2026-6471" in changes["npm-17"]["cves"]
    assert (updated["restarted"], updated["outdated"]) == (0, 1)
    build = read_builds(bough)["npm-17"]
    assert (build["id"], build["version"]) == (debian.id, debian.version)
    assert build["previous"] == {"id": npm.id, "version": "17.10"}
    assert [each["version"] for each in build["outdated_computes"]] == ["17.10"]

    [restart] = read_json(postgres(bough, "status", "--json"))["planned_restarts"]
    assert (restart["reasons"], restart["from_version"], restart["to_version"]) == (["build"], "17.10", debian.version)
    wait_until(lambda: read_json(postgres(bough, "status", "--json"))["planned_restarts"][0].get("scheduled_for"))
    text = postgres(bough, "status").stdout
    assert "These computes need a restart:" in text
    assert f"17.10 → {debian.version}" in text
    waits = "1 compute waits for a restart, in the maintenance window at "
    assert waits in bough("doctor").stdout
    assert waits in bough("status").stdout

    done = postgres(bough, "update", "--restart")
    assert done.stdout.splitlines() == ["Everything is up to date.", "Restarted 1 compute."], done.stderr
    assert read_builds(bough)["npm-17"]["outdated_computes"] == []

    back = postgres(bough, "rollback", "17")
    assert back.stdout.splitlines() == [f"npm-17: {debian.version} → 17.10 ({npm.id})"], back.stderr
    build = read_builds(bough)["npm-17"]
    assert (build["id"], build["previous"]["id"]) == (npm.id, debian.id)
    assert [each["version"] for each in build["outdated_computes"]] == [debian.version]
    forward = postgres(bough, "update", "--now")
    assert f"npm-17: 17.10 → {debian.version} ({debian.id})" in forward.stdout
    assert "Fixed since then, " in forward.stdout
    assert "CVE-2026-6471" in forward.stdout.replace("\n  ", " ")


def test_a_stopped_platform_is_updated_too(bough: MirrorProgram, npm: Install, debian: Install) -> None:
    """The next start uses the new builds."""
    add_install(Path(bough.variables["BOUGH_CACHE"]), debian)
    bough.home.mkdir()
    (bough.home / "postgres-builds.json").write_text(json.dumps({"npm-17": {"current": npm.id, "previous": None}}))
    done = postgres(bough, "update")
    assert f"npm-17: 17.10 → {debian.version}" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "The platform is not running; it uses the new builds from its next start."
    back = read_json(postgres(bough, "rollback", "17", "--json"))
    assert [(change["pin"], change["to"]) for change in back["changes"]] == [("npm-17", npm.id)]
    assert_refused(postgres(bough, "status"), f"Bough is not running in {bough.home}; start it with")


def test_an_update_that_fails_says_why_and_changes_nothing(bough: MirrorProgram, mirror: DebianMirror) -> None:
    bough.home.mkdir()
    bough.mirror = f"http://127.0.0.1:{find_free_port()}"
    assert_refused(postgres(bough, "update"), "mirror from the setting debian_mirror does not answer")
    bough.mirror = f"file://{mirror.folder}/missing"
    assert_refused(postgres(bough, "update"), "has Debian's suite trixie: set debian_mirror to the address of a")
    bough.mirror = f"file://{mirror.folder}"
    assert_refused(postgres(bough, "update", "--json"), "has the file pool/")
    bough.fingerprint = "0" * 40
    assert_refused(postgres(bough, "update"), "has no valid signature of Debian's archive keys")
    assert not (bough.home / "postgres-builds.json").exists()
    assert_refused(postgres(bough, "rollback", "99"), "There is no earlier build of Postgres 99 to go back to")


def test_without_a_mirror_an_update_names_the_setting(bough: MirrorProgram) -> None:
    require_root()
    bough.home.mkdir()
    bough.mirror, bough.hidden = "", (APT,)
    assert_refused(postgres(bough, "update"), "No mirror of Debian is known on this machine: set debian_mirror")


def test_an_address_that_is_none_is_refused(bough: MirrorProgram) -> None:
    bough.mirror = "mirror.example"
    done = postgres(bough, "update")
    assert (done.returncode, done.stdout) == (2, "")
    assert "debian_mirror" in done.stderr

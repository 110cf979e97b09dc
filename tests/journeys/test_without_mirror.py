"""A machine on which apt names no mirror of Debian: what the first start says, and how the operator mends it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bough.engine.local.debian import architecture
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.debian.versions import DebianVersion
from bough.engine.local.installs import debian_packages, locks, npm_packages, package_cache, wheel_build
from bough.engine.local.progress import ignore_progress
from support.debian_mirror import DebianMirror, FolderServer, serve_folder
from support.folders import temporary_folder
from support.mirror_program import APT, MirrorProgram, list_locked_packages
from support.program import ONE_WORKER, Result, create_running_project
from support.requirements import require_root

MAJOR = 17
SERVER = f"postgresql-{MAJOR}"
LOCKED = locks.read(debian_packages.lock_name(MAJOR), architecture.find_architecture().name)
DEBIAN = next(DebianVersion(each.version).upstream for each in LOCKED if each.name == SERVER)
PYPI = wheel_build.VERSIONS[MAJOR].removesuffix(".0")
NPM = npm_packages.VERSIONS[MAJOR].partition(".0-")[0]


@pytest.fixture
def mirror(tmp_path: Path) -> DebianMirror:
    """A mirror with the locked packages, copied from the mirror of this machine."""
    made = DebianMirror(tmp_path / "mirror")
    list_locked_packages(made, MAJOR)
    with Mirrors.open("") as mirrors:
        if mirrors is None:
            pytest.skip("apt's configuration of this machine names no mirror of Debian")
        files = package_cache.download(mirrors, LOCKED, tmp_path / "files", "copying", ignore_progress)
    for package, file in zip(LOCKED, files, strict=True):
        target = made.folder / package.file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)
    return made


@pytest.fixture
def site(mirror: DebianMirror) -> Iterator[FolderServer]:
    with serve_folder(mirror.folder) as served:
        yield served


@pytest.fixture
def bough() -> Iterator[MirrorProgram]:
    """A program with an empty cache, and without apt's configuration."""
    require_root()
    with temporary_folder(0o755) as folder:
        variables = {**ONE_WORKER, "BOUGH_CACHE": str(folder / "cache"), "NO_PROXY": "127.0.0.1"}
        program = MirrorProgram(folder / "home", variables, hidden=(APT,))
        yield program
        program.clean_up()


def start(bough: MirrorProgram) -> Result:
    """Start the platform as a user does: with nothing prepared."""
    done = bough("up", "--detach", "--json", *bough.port_arguments())
    assert done.returncode == 0, done.stderr
    bough.up_output = json.loads(done.stdout)
    return done


def find_notes(done: Result) -> list[str]:
    return [line for line in done.stderr.splitlines() if " comes from " in line]


def diagnose(bough: MirrorProgram) -> dict[str, Any]:
    findings = json.loads(bough("doctor", "--json").stdout)
    return next(finding for finding in findings if finding["name"] == "postgres")


def query(bough: MirrorProgram, statement: str) -> str:
    done = bough("psql", "first", "-At", "-c", statement)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
def test_the_build_of_pypi_is_replaced_when_a_mirror_is_set(
    bough: MirrorProgram, mirror: DebianMirror, site: FolderServer
) -> None:
    [note] = find_notes(start(bough))
    assert note.startswith(
        f"warning: Postgres {PYPI} comes from PyPI, without pgvector and other added extensions and "
    )
    assert note.endswith("set debian_mirror to the address of one. Then run `bough postgres update`.")
    create_running_project(bough)
    assert query(bough, "show server_version") == PYPI
    query(bough, "create table kept as select 1 as number")
    finding = diagnose(bough)
    assert finding["verdict"] == "warning"
    assert finding["sentence"] in note
    assert finding["mend"].startswith("set debian_mirror to the address of a Debian mirror, then run `")
    assert bough.status()["postgres_warnings"] == [finding["sentence"]]

    bough.mirror, bough.fingerprint = site.url, mirror.fingerprint
    server = next((mirror.folder / "pool").rglob(f"{SERVER}_*.deb"))
    mirror.change(server, b"\xfd7zXZ", b"\xfd7zXY")
    refused = bough.run("postgres", "update", "--home", str(bough.home))
    assert refused.returncode == 1
    assert "does not have the expected size and hash, so it is not used" in refused.stderr
    assert query(bough, "select number from kept") == "1"

    mirror.change(server, b"\xfd7zXY", b"\xfd7zXZ")
    updated = bough.run("postgres", "update", "--restart", "--home", str(bough.home))
    assert updated.returncode == 0, updated.stderr
    assert f"wheel-{MAJOR}: {PYPI} → {DEBIAN}" in updated.stdout
    assert "CVE-2026-6460" in updated.stdout
    assert query(bough, "show server_version").startswith(DEBIAN)
    assert query(bough, "select number from kept") == "1"
    assert query(bough, "create extension vector; select '[1,2]'::vector <-> '[1,3]'") == "CREATE EXTENSION\n1"
    assert diagnose(bough)["verdict"] == "ok"
    assert bough.status()["postgres_warnings"] == []


@pytest.mark.long
def test_with_the_setting_the_first_start_builds_debians(bough: MirrorProgram, site: FolderServer) -> None:
    bough.mirror = f"file://{site.folder}"
    assert not find_notes(start(bough))
    create_running_project(bough)
    assert query(bough, "show server_version").startswith(DEBIAN)
    assert diagnose(bough)["sentence"] == f"Postgres {DEBIAN} from Debian"


@pytest.mark.long
def test_without_the_libraries_of_the_pypi_build_the_one_of_npm_is_used(bough: MirrorProgram) -> None:
    library = next(Path("/usr/lib").glob("*-linux-gnu/libxml2.so.2"), None)
    if library is not None:  # it is a link
        bough.hidden = (APT, library.resolve())
    [note] = find_notes(start(bough))
    assert note.startswith(f"warning: Postgres {NPM} comes from npm, without pgvector and other added extensions and ")
    assert "set debian_mirror" in note
    create_running_project(bough)
    assert query(bough, "show server_version") == NPM

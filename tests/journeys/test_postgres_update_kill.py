"""`bough postgres update` or control is killed during an update. The old or the new build serves, and is complete."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from bough.config import default_cache
from bough.engine.local.installs import installs, npm_build, selection
from bough.engine.local.installs.installs import Install
from journeys.served_project import NO_RATE_LIMIT, RunningPlatform, ServedProject, create_project, make_http_client
from support.install_cache import copy_cache
from support.platform import temporary_folder
from support.program import Program, make_environment, wait_until

TIMEOUT = 120
PIN = "npm-17"
NUMBERS = "select array_agg(n order by n) from numbers"


@pytest.fixture
def npm() -> Install:
    return npm_build.fetch(17, default_cache())


@pytest.fixture
def bough(npm: Install) -> Iterator[Program]:
    """A platform whose only build is the npm build 17.10."""
    with copy_cache(npm) as cache, temporary_folder(0o755) as folder:
        program = Program(folder / "home", {**NO_RATE_LIMIT, "BOUGH_CACHE": str(cache)})
        yield program
        program.clean_up()


def start(bough: Program) -> RunningPlatform:
    """Unlike `Program.up`, this does not give the home a template of the newest build."""
    done = bough("up", "--detach", "--json", *bough.port_arguments())
    assert done.returncode == 0, done.stderr
    return RunningPlatform(bough, json.loads(done.stdout))


def list_steps(bough: Program) -> dict[str, Callable[[], bool]]:
    """The steps of an update, with what shows in the file system that each has begun."""
    cache, home = Path(bough.variables["BOUGH_CACHE"]), bough.home
    folder = cache / "postgres"
    return {
        "downloads": lambda: any((cache / "downloads").glob("*.part")),
        "unpacks": lambda: any(folder.glob("debian-*.making/tree/usr/lib/postgresql")),
        "publishes": lambda: any(path.suffix != ".making" for path in folder.glob("debian-*")),
        "selects": lambda: find_debian(home) is not None,
    }


def find_debian(home: Path) -> str | None:
    """The Debian build that the home selected for its npm projects."""
    entry = selection.read(home).get(PIN)
    return entry.current if entry is not None and entry.current.startswith("debian-") else None


def kill_update_when(bough: Program, has_begun: Callable[[], bool]) -> None:
    command = [sys.executable, "-m", "bough.cli.main", "postgres", "update", "--home", str(bough.home)]
    options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=make_environment(**bough.variables), **options) as process:
        wait_until(lambda: has_begun() or process.poll() is not None, TIMEOUT)
        process.kill()
        _, errors = process.communicate()
    assert has_begun(), errors


def check_installs(bough: Program) -> None:
    """Every install that the platform could choose runs."""
    for install in installs.find_installs(Path(bough.variables["BOUGH_CACHE"])).values():
        if install.is_managed:
            done = subprocess.run(
                [install.program_path("postgres"), "--version"], capture_output=True, text=True, check=False
            )
            assert install.version in done.stdout, done.stderr


async def read(project: ServedProject) -> tuple[str, list[int]]:
    version = await project.fetch_value("show server_version")
    return version.split()[0], await project.fetch_value(NUMBERS)


async def restart(project: ServedProject) -> tuple[str, list[int]]:
    """Restart the compute, and return its version and its rows. Control may not answer at first."""

    def request() -> bool | None:
        with suppress(httpx2.TransportError):
            return project.api.post(f"{project.endpoint_path}/restart").status_code == 200 or None
        return None

    wait_until(request, TIMEOUT)
    wait_until(lambda: is_settled(project), TIMEOUT)
    for _ in range(20):
        with suppress(psycopg.OperationalError):
            return await read(project)
    return await read(project)


def is_settled(project: ServedProject) -> bool:
    with suppress(httpx2.TransportError, httpx2.HTTPStatusError):
        response = project.api.get(f"{project.project_path}/operations").raise_for_status()
        ended = {"finished", "failed", "cancelled", "skipped"}
        return all(each["status"] in ended for each in response.json()["operations"])
    return False


async def test_an_update_that_is_killed_at_any_step_leaves_the_old_or_the_new_build(
    bough: Program, is_long_run: bool
) -> None:
    async with create_project(start(bough)) as project:
        session = await project.connect()
        await session.execute("create table numbers as select generate_series(1, 3) as n")
        await session.close()
        before = await read(project)
        assert before == ("17.10", [1, 2, 3])
        steps = list_steps(bough)
        for step in steps if is_long_run else ("selects",):
            kill_update_when(bough, steps[step])
            check_installs(bough)
            if step != "selects":
                assert await restart(project) == before
                assert find_debian(bough.home) is None
        kill_control(bough)
        project.api.close()
        project.api = make_http_client(project.api.base_url, project.api.headers)
        newest = find_debian(bough.home)
        assert newest is not None
        wait_until(lambda: list_current(bough) == {newest}, TIMEOUT)
        version, numbers = await restart(project)
        assert (newest.startswith(f"debian-{version}-"), numbers) == (True, [1, 2, 3])


def kill_control(bough: Program) -> None:
    """It has just begun to follow the selection, or will at its next start."""
    control = int(bough.status()["control_pid"])
    os.kill(control, signal.SIGKILL)
    bough.wait_for_restart(control)


def list_current(bough: Program) -> set[str] | None:
    done = bough.run("postgres", "status", "--home", str(bough.home), "--json")
    if done.returncode != 0:
        return None
    return {build["id"] for build in json.loads(done.stdout)["builds"] if build["pg_version"] == 17}

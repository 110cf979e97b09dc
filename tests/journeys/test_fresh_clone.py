"""The first five minutes of a new user: a clone, `make up`, a project, `select version()`.

The machine is made bare for it: a PATH without Node, Postgres and compilers, no variables of ours,
and an empty cache, so that Python packages, Node and Postgres are really fetched.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.program import find_free_port
from support.requirements import require_root

ROOT = Path(__file__).parents[2]
NOBODY = 65534
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
PROGRAMS = "make sh bash env cat cp mkdir rm mv ln ls touch chmod id uname getconf sleep test dirname basename".split()
IS_SUITABLE = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"

pytestmark = pytest.mark.timeout(900)


@dataclass
class NewUser:
    """Somebody in a folder of their own, with a clone and hardly any program."""

    folder: Path
    uid: int | None  # None: as we are

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        certificates = {name: value for name, value in os.environ.items() if "CERT" in name or "CA_BUNDLE" in name}
        ours = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder / "user")}
        return {**certificates, **ours, "BOUGH_CACHE": str(self.folder / "cache"), "BOUGH_HOSTS_FILE": ""}

    def run(self, *command: str | Path) -> str:
        """Run as this user in the clone; what it wrote to standard output."""
        identity: dict[str, Any] = {}
        if self.uid is not None:
            identity = {"user": self.uid, "group": self.uid, "extra_groups": []}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, cwd=self.clone, env=self.environment, capture_output=True, text=True, check=False, **identity
        )
        assert done.returncode == 0, f"{command} said:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def up(self) -> dict[str, Any]:
        ports = f"--api-port {find_free_port()} --gateway-port {find_free_port()}"
        said: dict[str, Any] = json.loads(self.run("make", "up", f"ARGS=--detach --json --home {self.home} {ports}"))
        return said

    def bough(self, command: str) -> str:
        return self.run(".venv/bin/bough", command, "--home", self.home)

    def sockets(self) -> Path:
        program = f"from bough import config; print(config.load_settings({{'home': {str(self.home)!r}}}).sockets)"
        return Path(self.run(".venv/bin/python", "-c", program).strip())

    def query(self, created: dict[str, Any], statement: str) -> str:
        """Ask the project's Postgres by the gateway, with the psql that came with the environment."""
        return self.run(
            ".venv/bin/bough", "psql", created["project"]["id"], "--home", self.home, "-At", "-c", statement
        )

    def kill_what_is_left(self) -> None:
        """Only after a failure: every process whose arguments name this folder."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.home).encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                continue


def make_clone(place: Path) -> None:
    """A clone of what is committed; of the working tree when that is different."""
    if not git("status", "--porcelain"):
        git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(place))
        return
    for name in git("ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)


def git(*arguments: str) -> str:
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def make_bare_path(place: Path) -> None:
    place.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name, path=SYSTEM)
        if found:
            (place / name).symlink_to(found)
    (place / "python3").symlink_to(system_python())
    assert not {"node", "npm", "postgres", "psql", "cc", "gcc", "git"} & {path.name for path in place.iterdir()}


def system_python() -> str:
    """The machine's own Python: one in somebody's home could not be run by another user."""
    for name in ("python3", "python3.14", "python3.13", "python3.12", "python3.11"):
        found = shutil.which(name, path=SYSTEM)
        if found and subprocess.run([found, "-c", IS_SUITABLE], capture_output=True, check=False).returncode == 0:
            return found
    pytest.skip("this test needs Python 3.11 or later with venv in /usr/bin or /usr/local/bin")


@pytest.fixture(params=["ordinary user", pytest.param("root", marks=pytest.mark.long)])
def new_user(request: pytest.FixtureRequest) -> Iterator[NewUser]:
    if shutil.which("git") is None:
        pytest.skip("this test needs git")
    if request.param == "root":
        require_root()
    folder = Path(tempfile.mkdtemp(prefix="bough-new-", dir="/tmp"))
    folder.chmod(0o755)  # computes of root pass through it
    user = NewUser(folder, NOBODY if request.param != "root" and os.geteuid() == 0 else None)
    make_clone(user.clone)
    make_bare_path(folder / "bin")
    (folder / "user").mkdir()
    if user.uid is not None:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, user.uid, user.uid, follow_symlinks=False)
    yield user
    user.kill_what_is_left()
    if (user.clone / ".venv/run.stamp").exists():
        shutil.rmtree(user.sockets(), ignore_errors=True)
    shutil.rmtree(folder)


def call(said: dict[str, Any], path: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(
        said["api_url"] + path,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {said['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def wait_for(said: dict[str, Any], operation: dict[str, Any]) -> None:
    path = f"/projects/{operation['project_id']}/operations/{operation['id']}"
    deadline = time.monotonic() + 60
    while (status := call(said, path)["operation"]["status"]) != "finished":
        assert status in {"scheduling", "running"}, f"{operation['action']} ended as {status}"
        assert time.monotonic() < deadline, f"{operation['action']} takes too long"
        time.sleep(0.05)


@pytest.mark.timeout(900)
def test_from_a_fresh_clone_to_a_first_query(new_user: NewUser) -> None:
    began = time.monotonic()
    said = new_user.up()
    print(f"first `make up`: {time.monotonic() - began:.1f} s")

    created = call(said, "/projects", {"project": {"name": "first"}})
    for operation in created["operations"]:
        wait_for(said, operation)
    assert new_user.query(created, "select version()").startswith("PostgreSQL 17")
    assert "1 compute" in new_user.bough("down")

    began = time.monotonic()
    said = new_user.up()
    print(f"second `make up`: {time.monotonic() - began:.1f} s")
    assert [project["name"] for project in call(said, "/projects")["projects"]] == ["first"]
    new_user.bough("down")

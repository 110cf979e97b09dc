"""The first five minutes of a new user: a clone, `make up`, a project, `select version()`.

The test uses a PATH without Node, Postgres and compilers, no variables of Bough, and an empty cache, so that Python
packages, Node and Postgres are really downloaded.
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
from support.storage import release_mounts

ROOT = Path(__file__).parents[2]
NOBODY_UID = 65534
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
PROGRAMS = "make sh bash env cat cp mkdir rm mv ln ls touch chmod id uname getconf sleep test dirname basename".split()
CHECK_PYTHON = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"

# The environment is created from a clean clone in every run of .ci/run; test_wheel.py covers the first query every day.
pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


@dataclass
class NewUser:
    """A user with a folder, a clone and few programs on PATH."""

    folder: Path
    uid: int | None  # None: the user of this process

    @property
    def clone(self) -> Path:
        return self.folder / "clone"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        certificates = {name: value for name, value in os.environ.items() if "CERT" in name or "CA_BUNDLE" in name}
        variables = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder / "user")}
        return {**certificates, **variables, "BOUGH_CACHE": str(self.folder / "cache"), "BOUGH_HOSTS_FILE": ""}

    def run(self, *command: str | Path) -> str:
        """Runs a command as this user in the clone. Returns its standard output."""
        identity: dict[str, Any] = {}
        if self.uid is not None:
            identity = {"user": self.uid, "group": self.uid, "extra_groups": []}
        completed: subprocess.CompletedProcess[str] = subprocess.run(
            command, cwd=self.clone, env=self.environment, capture_output=True, text=True, check=False, **identity
        )
        assert completed.returncode == 0, f"{command} failed:\n{completed.stdout}\n{completed.stderr}"
        return completed.stdout

    def up(self) -> dict[str, Any]:
        ports = f"--api-port {find_free_port()} --gateway-port {find_free_port()}"
        up_output: dict[str, Any] = json.loads(
            self.run("make", "up", f"ARGS=--detach --json --home {self.home} {ports}")
        )
        return up_output

    def bough(self, command: str) -> str:
        return self.run(".venv/bin/bough", command, "--home", self.home)

    def sockets(self) -> Path:
        script = f"from bough import config; print(config.load_settings({{'home': {str(self.home)!r}}}).sockets)"
        return Path(self.run(".venv/bin/python", "-c", script).strip())

    def query(self, created: dict[str, Any], statement: str) -> str:
        """Queries the project through the gateway, with the psql of the installed environment."""
        return self.run(
            ".venv/bin/bough", "psql", created["project"]["id"], "--home", self.home, "-At", "-c", statement
        )

    def kill_remaining_processes(self) -> None:
        """Kills processes whose arguments name this home; there are some only after a failure."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.home).encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                continue


def make_clone(folder: Path) -> None:
    """Clones the repository, or copies the working tree if it has uncommitted changes."""
    if not git("status", "--porcelain"):
        git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder))
        return
    for name in git("ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def git(*arguments: str) -> str:
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def create_minimal_path(folder: Path) -> None:
    folder.mkdir()
    for name in PROGRAMS:
        program_path = shutil.which(name, path=SYSTEM_PATH)
        if program_path:
            (folder / name).symlink_to(program_path)
    (folder / "python3").symlink_to(find_system_python())
    assert not {"node", "npm", "postgres", "psql", "cc", "gcc", "git"} & {path.name for path in folder.iterdir()}


def find_system_python() -> str:
    """Finds the Python of the system. Another user could not run a Python in a home folder."""
    for name in ("python3", "python3.14", "python3.13", "python3.12", "python3.11"):
        program_path = shutil.which(name, path=SYSTEM_PATH)
        if (
            program_path
            and subprocess.run([program_path, "-c", CHECK_PYTHON], capture_output=True, check=False).returncode == 0
        ):
            return program_path
    pytest.skip("this test needs Python 3.11 or later with venv in /usr/bin or /usr/local/bin")


@pytest.fixture(params=["ordinary user", "root"])
def new_user(request: pytest.FixtureRequest) -> Iterator[NewUser]:
    if shutil.which("git") is None:
        pytest.skip("this test needs git")
    if request.param == "root":
        require_root()
    folder = Path(tempfile.mkdtemp(prefix="bough-new-", dir="/tmp"))
    folder.chmod(0o755)  # the users of computes must pass through it
    user = NewUser(folder, NOBODY_UID if request.param != "root" and os.geteuid() == 0 else None)
    make_clone(user.clone)
    create_minimal_path(folder / "bin")
    (folder / "user").mkdir()
    if user.uid is not None:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, user.uid, user.uid, follow_symlinks=False)
    with release_mounts(folder):
        yield user
        user.kill_remaining_processes()
    if (user.clone / ".venv/run.stamp").exists():
        shutil.rmtree(user.sockets(), ignore_errors=True)
    shutil.rmtree(folder)


def call_api(up_output: dict[str, Any], path: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(
        up_output["api_url"] + path,
        data=json.dumps(body).encode() if body else None,
        headers={"Authorization": f"Bearer {up_output['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def wait_for_operation(up_output: dict[str, Any], operation: dict[str, Any]) -> None:
    path = f"/projects/{operation['project_id']}/operations/{operation['id']}"
    deadline = time.monotonic() + 60
    while (status := call_api(up_output, path)["operation"]["status"]) != "finished":
        assert status in {"scheduling", "running"}, f"{operation['action']} ended as {status}"
        assert time.monotonic() < deadline, f"{operation['action']} did not end within 60 s"
        time.sleep(0.05)


def test_from_a_fresh_clone_to_a_first_query(new_user: NewUser) -> None:
    started = time.monotonic()
    up_output = new_user.up()
    print(f"first `make up`: {time.monotonic() - started:.1f} s")

    created = call_api(up_output, "/projects", {"project": {"name": "first"}})
    for operation in created["operations"]:
        wait_for_operation(up_output, operation)
    assert new_user.query(created, "select version()").startswith("PostgreSQL 17")
    assert "1 compute" in new_user.bough("down")

    started = time.monotonic()
    up_output = new_user.up()
    print(f"second `make up`: {time.monotonic() - started:.1f} s")
    assert [project["name"] for project in call_api(up_output, "/projects")["projects"]] == ["first"]
    new_user.bough("down")

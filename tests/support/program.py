"""The `bough` program as an operator uses it: real processes, with their own home and ports."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import typer

from bough.cli import orphaned_computes, status
from bough.config import Settings
from bough.supervisor import lock
from support import forkserver, platform

Result = subprocess.CompletedProcess[str]

KEPT_VARIABLES = ("PATH", "HOME", "LANG", "PYTHONPATH", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
NOBODY = 65534
ONE_WORKER = {"BOUGH_GATEWAY_WORKERS": "1"}  # each worker is a process, and most tests need only one
TWO_WORKERS = {"BOUGH_GATEWAY_WORKERS": "2"}


def make_environment(**more: str) -> dict[str, str]:
    """Return an environment without a warm pool, because tests count computes, and without changes to /etc/hosts."""
    certificates = {name: value for name, value in os.environ.items() if "CERT" in name or name.endswith("CA_BUNDLE")}
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**certificates, **kept, "COLUMNS": "100", "BOUGH_WARM_POOL": "0", "BOUGH_HOSTS_FILE": "", **more}


def find_free_port() -> int:
    """Return an unused port below the range that the kernel uses for outgoing connections."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], seconds: float = 30.0) -> T:
    """Poll until the condition returns a true value, and return it; fail after the timeout."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.05)
    return value


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):  # the process may exit between open and read
        return False


def get_status_code(up_output: dict[str, Any], path: str) -> int:
    """Return the status of a GET request to the platform that printed this output."""
    headers = {"Authorization": f"Bearer {up_output['api_key']}"}
    with urllib.request.urlopen(urllib.request.Request(up_output["api_url"] + path, headers=headers)) as response:
        status: int = response.status
        return status


def create_project(up_output: dict[str, Any], name: str, **fields: Any) -> dict[str, Any]:
    """Create a project and return the response."""
    request = urllib.request.Request(
        f"{up_output['api_url']}/projects",
        data=json.dumps({"project": {"name": name, **fields}}).encode(),
        headers={"Authorization": f"Bearer {up_output['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        created: dict[str, Any] = json.load(response)
    return created


def list_computes(home: Path) -> set[int]:
    """Return the pids of the postmasters on this home's volumes, without children that have just been forked."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if arguments[1:2] == [b"-D"] and arguments[2].startswith(os.fsencode(home / "volumes")):
            parents[int(entry.name)] = parent
    return {pid for pid, parent in parents.items() if parent not in parents}


@dataclass
class Program:
    home: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    foreground: list[subprocess.Popen[str]] = field(default_factory=list)
    up_output: dict[str, Any] = field(default_factory=dict)  # of the last `up`

    def run(self, *arguments: str, **variables: str) -> Result:
        return forkserver.run_forked(arguments, make_environment(**self.variables, **variables))

    def run_in_new_interpreter(self, *arguments: str, **variables: str) -> Result:
        """Run a command in a new interpreter, which imports what the command needs."""
        return subprocess.run(
            [sys.executable, "-m", "bough.cli.main", *arguments],
            env=make_environment(**self.variables, **variables),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def __call__(self, command: str, *arguments: str, **variables: str) -> Result:
        """Run a command with this home."""
        return self.run(command, "--home", str(self.home), *arguments, **variables)

    def run_as_user(self, uid: int, command: str, *arguments: str) -> Result:
        return forkserver.run_forked(
            [command, "--home", str(self.home), *arguments], make_environment(**self.variables), uid
        )

    def up(self, *arguments: str) -> dict[str, Any]:
        """Start the platform in the background; return the output of `up --json`."""
        platform.install_templates(self.home)
        done = self("up", "--detach", "--json", *self.port_arguments(), *arguments)
        assert done.returncode == 0, done.stderr
        self.up_output = json.loads(done.stdout)
        return self.up_output

    def start_foreground(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the platform in the foreground; return at once."""
        platform.install_templates(self.home)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bough.cli.main",
                "up",
                "--home",
                str(self.home),
                *self.port_arguments(),
                *arguments,
            ],
            env=make_environment(**self.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.foreground.append(process)
        return process

    def port_arguments(self) -> list[str]:
        """Return free ports for the first start, and the same ones for later starts."""
        if not hasattr(self, "_ports"):
            self._ports = ["--api-port", str(find_free_port()), "--gateway-port", str(find_free_port())]
        return self._ports

    def status(self) -> dict[str, Any]:
        """Return the output of `bough status --json`, computed in this process because many tests poll it."""
        with redirect_stdout(StringIO()) as printed, suppress(typer.Exit):
            status.status(home=self.home, json=True)
        result: dict[str, Any] = json.loads(printed.getvalue())
        return result

    def supervisor_pid(self) -> int:
        return int((self.home / "supervisor.lock").read_text())

    def wait_for_restart(self, old_control: int) -> dict[str, Any]:
        """Wait until a control process other than the old one responds; return the status."""

        def restarted() -> dict[str, Any] | None:
            current = self.status()
            return current if current["state"] == "running" and current["control_pid"] != old_control else None

        return wait_until(restarted)

    def is_running(self) -> bool:
        return bool(self.status()["state"] == "running")

    def clean_up(self) -> None:
        settings = Settings(home=self.home)
        if lock.read_holder_pid(lock.supervisor_lock_file(settings)) or orphaned_computes.has_any(settings):
            self("down")
        for process in self.foreground:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
        shutil.rmtree(Settings(home=self.home).sockets, ignore_errors=True)


def create_running_project(bough: Program) -> None:
    """Create the first project of a platform and wait until its compute runs."""
    create_project(bough.up_output, "first")
    wait_until(lambda: (now := bough.status())["computes_running"] == 1 and now["operations_open"] == 0)

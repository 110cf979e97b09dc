"""The `bough` program as a person uses it: real processes, a home and ports of its own."""

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
ONE_WORKER = {"BOUGH_GATEWAY_WORKERS": "1"}  # each is a process; most tests are about other ones
TWO_WORKERS = {"BOUGH_GATEWAY_WORKERS": "2"}


def make_environment(**more: str) -> dict[str, str]:
    """Without a warm pool, whose computes would be in the way of tests that count computes; names stay ours."""
    certificates = {name: value for name, value in os.environ.items() if "CERT" in name or name.endswith("CA_BUNDLE")}
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {**certificates, **kept, "COLUMNS": "100", "BOUGH_WARM_POOL": "0", "BOUGH_HOSTS_FILE": "", **more}


def find_free_port() -> int:
    """A port nobody uses, below those that the kernel lends to outgoing connections."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


T = TypeVar("T")


def wait_until(seen: Callable[[], T | None], seconds: float = 30.0) -> T:
    """What the function returns as soon as that is something; a failure when it takes too long."""
    deadline = time.monotonic() + seconds
    while not (value := seen()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return value


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):  # it may go between open and read
        return False


def get_status_code(said: dict[str, Any], path: str) -> int:
    """How the API of a platform answers, whose `up` said this."""
    request = urllib.request.Request(said["api_url"] + path, headers={"Authorization": f"Bearer {said['api_key']}"})
    with urllib.request.urlopen(request) as answer:
        status: int = answer.status
        return status


@dataclass
class Program:
    home: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    foreground: list[subprocess.Popen[str]] = field(default_factory=list)
    up_output: dict[str, Any] = field(default_factory=dict)  # by the last `up`

    def run(self, *arguments: str, **variables: str) -> Result:
        return forkserver.run_forked(arguments, make_environment(**self.variables, **variables))

    def run_in_new_interpreter(self, *arguments: str, **variables: str) -> Result:
        """In an interpreter of its own, that imports what the command needs."""
        return subprocess.run(
            [sys.executable, "-m", "bough.cli.main", *arguments],
            env=make_environment(**self.variables, **variables),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def __call__(self, command: str, *arguments: str, **variables: str) -> Result:
        """Run a command on this home."""
        return self.run(command, "--home", str(self.home), *arguments, **variables)

    def run_as_user(self, uid: int, command: str, *arguments: str) -> Result:
        return forkserver.run_forked(
            [command, "--home", str(self.home), *arguments], make_environment(**self.variables), uid
        )

    def up(self, *arguments: str) -> dict[str, Any]:
        """Start in the background; what `up --json` said."""
        platform.install_templates(self.home)
        done = self("up", "--detach", "--json", *self.port_arguments(), *arguments)
        assert done.returncode == 0, done.stderr
        self.up_output = json.loads(done.stdout)
        return self.up_output

    def start_foreground(self, *arguments: str) -> subprocess.Popen[str]:
        """Start in the foreground; returns at once."""
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
        """Free ports at the first start, and the same ones after it."""
        if not hasattr(self, "_ports"):
            self._ports = ["--api-port", str(find_free_port()), "--gateway-port", str(find_free_port())]
        return self._ports

    def status(self) -> dict[str, Any]:
        """What `bough status --json` says, asked for in this process: most who ask wait for something."""
        with redirect_stdout(StringIO()) as told, suppress(typer.Exit):
            status.status(home=self.home, json=True)
        said: dict[str, Any] = json.loads(told.getvalue())
        return said

    def supervisor_pid(self) -> int:
        return int((self.home / "supervisor.lock").read_text())

    def wait_for_restart(self, old_control: int) -> dict[str, Any]:
        """The status, when a control process other than the old one answers."""

        def now_running() -> dict[str, Any] | None:
            now = self.status()
            return now if now["state"] == "running" and now["control_pid"] != old_control else None

        return wait_until(now_running)

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

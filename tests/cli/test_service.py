"""Bough under a service manager: its notification to systemd, and the unit file."""

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.program import Program
from support.requirements import require

UNIT = Path(__file__).parents[2] / "deploy" / "bough.service"


@pytest.fixture
def manager(folder: Path, bough: Program) -> Iterator[socket.socket]:
    """The socket that receives the notification of readiness."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(folder / "notify"))
        receiver.settimeout(120)
        bough.variables = {"NOTIFY_SOCKET": str(folder / "notify")}
        yield receiver


def test_the_manager_hears_when_the_platform_is_ready(bough: Program, manager: socket.socket) -> None:
    process = bough.start_foreground()
    message = manager.recv(4096).decode().splitlines()
    assert message == ["READY=1", f"STATUS=Bough is ready at http://127.0.0.1:{bough.port_arguments()[1]}"]
    assert bough.status()["state"] == "running"
    process.send_signal(signal.SIGQUIT)
    output = "".join(process.communicate(timeout=60))
    assert process.returncode == 0
    assert (bough.home / "keys" / "operator").read_text().strip() not in output, "a service manager stores the output"


def test_a_manager_that_is_gone_is_no_reason_to_end(bough: Program, folder: Path) -> None:
    bough.variables = {"NOTIFY_SOCKET": str(folder / "missing")}
    process = bough.start_foreground()
    assert process.stderr is not None
    while "Cannot notify the service manager" not in (line := process.stderr.readline()):
        assert line, "the program exited"
    assert bough.status()["state"] == "running"


def test_the_unit_is_valid(folder: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    require("systemd", analyze is not None, "this test needs systemd-analyze")
    assert analyze is not None
    program = folder / "bough"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = folder / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/bough/.venv/bin/bough", str(program)))
    verified = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_the_unit_leaves_computes_to_the_supervisor() -> None:
    """The settings that restart, stop and the storage image depend on."""
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    assert (settings["KillMode"], settings["Delegate"], settings["Type"]) == ("process", "yes", "notify")
    assert (settings["RestartKillSignal"], settings["KillSignal"]) == ("SIGQUIT", "SIGTERM")
    own_mounts = r"(Private(Tmp|Mounts|Devices|Users)|Protect\w+|ReadWritePaths|RootDirectory|DynamicUser|User)"
    assert [name for name in settings if re.fullmatch(own_mounts, name)] == []

"""What happens to the platform and its computes when a part of it ends in one way or another."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from support.platform import install_templates
from support.program import Program, get_status_code, is_alive, make_environment, wait_until

# Makes standard input our controlling terminal, then becomes the program.
ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "bough.cli.main", *sys.argv[1:]])
"""


def computes(bough: Program) -> set[int]:
    """The postmasters on this home's volumes. What one has just forked has its command line for a moment."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if arguments[1:2] == [b"-D"] and arguments[2].startswith(os.fsencode(bough.home / "volumes")):
            parents[int(entry.name)] = parent
    return {pid for pid, parent in parents.items() if parent not in parents}


@pytest.fixture
def compute(bough: Program) -> int:
    """The pid of the compute of a project on a platform that runs in the background."""
    create_project(bough, bough.up())
    return computes(bough).pop()


def create_project(bough: Program, said: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"{said['api_url']}/projects",
        data=json.dumps({"project": {"name": "first"}}).encode(),
        headers={"Authorization": f"Bearer {said['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request):
        pass
    wait_until(lambda: (now := bough.status())["computes_running"] == 1 and now["operations_open"] == 0)


def test_a_restart_leaves_them_alone_and_down_stops_them_spare_ones_too(bough: Program) -> None:
    bough.variables = {"BOUGH_WARM_POOL": "1"}
    said = bough.up()
    wait_until(lambda: computes(bough))
    create_project(bough, said)
    wait_until(lambda: len(spares(bough)) == 1 and len(computes(bough)) == 2)
    before = computes(bough)
    assert bough("restart").returncode == 0
    assert bough.status()["computes_running"] == 1
    assert computes(bough) == before
    pid = bough.supervisor_pid()
    assert bough("down").stdout == f"Stopped the platform (pid {pid}) and 1 compute.\n"
    assert computes(bough) == set()


def spares(bough: Program) -> list[Path]:
    """Those that are ready to be taken or were ready once: their wish was applied."""
    return [path for path in bough.home.glob("volumes/warm-*/applied") if not path.parent.is_symlink()]


def test_they_survive_a_platform_that_is_killed_and_are_adopted_or_stopped_by_down(
    bough: Program, compute: int
) -> None:
    before = bough.status()
    os.kill(before["control_pid"], signal.SIGKILL)
    after = bough.wait_for_restart(before["control_pid"])
    assert (after["pid"], after["control_restarts"]) == (before["pid"], 1)
    assert get_status_code(bough.up_output, "/projects") == 200

    os.kill(after["pid"], signal.SIGKILL)
    again = bough.up()
    assert again["api_url"] == after["api_url"], "the next start waits for the old control to free its port"
    assert not is_alive(after["control_pid"]), "it ended with its supervisor"
    assert computes(bough) == {compute}

    os.kill(bough.supervisor_pid(), signal.SIGKILL)
    wait_until(lambda: bough.status()["state"] == "stopped")
    assert "It did not stop its computes" in bough("status").stdout
    assert bough.run_in_new_interpreter("down", "--home", str(bough.home)).stdout == "Stopped 1 compute.\n"
    assert not is_alive(compute)
    assert bough("down").stdout.startswith("Nothing runs")


def test_sigquit_ends_the_platform_and_leaves_them_running(bough: Program, compute: int) -> None:
    supervisor = bough.supervisor_pid()
    os.kill(supervisor, signal.SIGQUIT)
    wait_until(lambda: not is_alive(supervisor))
    assert bough("status").returncode == 3
    assert is_alive(compute)


def test_a_second_sigterm_does_not_wait_for_control(bough: Program, compute: int) -> None:
    status = bough.status()
    os.kill(status["control_pid"], signal.SIGSTOP)  # it will not stop by itself
    os.kill(status["pid"], signal.SIGTERM)
    time.sleep(0.5)
    assert is_alive(status["pid"])
    os.kill(status["pid"], signal.SIGTERM)
    wait_until(lambda: not is_alive(status["pid"]))
    assert not is_alive(status["control_pid"])
    assert not is_alive(compute), "the supervisor stops what control could not"


def test_a_closed_terminal_window_means_ctrl_c(bough: Program) -> None:
    install_templates(bough.home)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, "up", "--home", str(bough.home), *bough.port_arguments()],
        env=make_environment(**bough.variables),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    wait_until(bough.is_running)
    os.close(ours)
    assert process.wait(timeout=30) == 0
    assert bough("status").returncode == 3

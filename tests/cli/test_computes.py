"""What happens to the platform and its computes when one of its processes ends."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.platform import install_templates
from support.program import (
    Program,
    create_running_project,
    get_status_code,
    is_alive,
    list_computes,
    make_environment,
    wait_until,
)

# Makes standard input the controlling terminal, then executes the program.
ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "bough.cli.main", *sys.argv[1:]])
"""


@pytest.fixture
def compute(bough: Program) -> int:
    """The pid of the compute of a project on a platform that runs in the background."""
    bough.up()
    create_running_project(bough)
    return list_computes(bough.home).pop()


def test_a_restart_leaves_them_alone_and_down_stops_them_spare_ones_too(bough: Program) -> None:
    bough.variables = {"BOUGH_WARM_POOL": "1"}
    bough.up()
    wait_until(lambda: list_computes(bough.home))
    create_running_project(bough)
    wait_until(lambda: len(spares(bough)) == 1 and len(list_computes(bough.home)) == 2)
    before = list_computes(bough.home)
    assert bough("restart").returncode == 0
    assert bough.status()["computes_running"] == 1
    assert list_computes(bough.home) == before
    pid = bough.supervisor_pid()
    assert bough("down").stdout == f"Stopped the platform (pid {pid}) and 1 compute.\n"
    assert list_computes(bough.home) == set()


def spares(bough: Program) -> list[Path]:
    """The spare computes that are or were ready: their specification is applied."""
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
    assert not is_alive(after["control_pid"]), "control exited with its supervisor"
    assert list_computes(bough.home) == {compute}

    os.kill(bough.supervisor_pid(), signal.SIGKILL)
    wait_until(lambda: bough.status()["state"] == "stopped")
    assert "Its computes are still running" in bough("status").stdout
    assert bough.run_in_new_interpreter("down", "--home", str(bough.home)).stdout == "Stopped 1 compute.\n"
    assert not is_alive(compute)
    assert bough("down").stdout.startswith("Nothing is running")


def test_sigquit_ends_the_platform_and_leaves_them_running(bough: Program, compute: int) -> None:
    supervisor = bough.supervisor_pid()
    os.kill(supervisor, signal.SIGQUIT)
    wait_until(lambda: not is_alive(supervisor))
    assert bough("status").returncode == 3
    assert is_alive(compute)


def test_a_second_sigterm_does_not_wait_for_control(bough: Program, compute: int) -> None:
    status = bough.status()
    os.kill(status["control_pid"], signal.SIGSTOP)  # it cannot stop by itself
    os.kill(status["pid"], signal.SIGTERM)
    time.sleep(0.5)
    assert is_alive(status["pid"])
    os.kill(status["pid"], signal.SIGTERM)
    wait_until(lambda: not is_alive(status["pid"]))
    assert not is_alive(status["control_pid"])
    assert not is_alive(compute), "the supervisor stops what control could not"


def test_a_closed_terminal_window_means_ctrl_c(bough: Program) -> None:
    install_templates(bough.home)
    terminal, child_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, "up", "--home", str(bough.home), *bough.port_arguments()],
        env=make_environment(**bough.variables),
        stdin=child_end,
        stdout=child_end,
        stderr=child_end,
        start_new_session=True,
    )
    os.close(child_end)
    printed = b""
    while b"Ctrl-C stops Bough" not in printed:
        printed += os.read(terminal, 4096)
    os.close(terminal)
    assert process.wait(timeout=30) == 0
    assert bough("status").returncode == 3

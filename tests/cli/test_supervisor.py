"""The supervisor with a real platform: what each signal and each death means."""

import json
import os
import signal
import socket
import subprocess
import urllib.request
from typing import Any

from cli.program import Program, is_alive, until


def get(said: dict[str, Any], path: str) -> int:
    request = urllib.request.Request(said["api_url"] + path, headers={"Authorization": f"Bearer {said['api_key']}"})
    with urllib.request.urlopen(request) as answer:
        status: int = answer.status
        return status


def test_up_in_the_background_and_down(bough: Program) -> None:
    said = bough.up()
    assert set(said) == {"api_url", "instant_url", "console_url", "gateway_port", "api_key", "home"}
    assert get(said, "/projects") == 200
    assert said["home"] == str(bough.home)
    supervisor = bough.supervisor()
    assert os.getsid(supervisor) == supervisor, "it has left our session"
    status = bough.status()
    assert (status["state"], status["pid"], status["projects"]) == ("running", supervisor, 0)
    down = bough("down")
    assert (down.returncode, down.stdout) == (0, f"Stopped the platform (pid {supervisor}).\n")
    assert not is_alive(supervisor)
    assert not is_alive(status["control_pid"])


def test_up_for_people_says_where_and_how(bough: Program) -> None:
    done = bough("up", "--detach", *bough.ports())
    assert done.returncode == 0, done.stderr
    curl = next(line.strip() for line in done.stdout.splitlines() if line.strip().startswith("curl"))
    answer = subprocess.run(["sh", "-c", f"{curl} --silent --fail"], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["projects"] == []
    key = (bough.home / "keys" / "operator").read_text().strip()
    for words in (
        key,
        f"kept in {bough.home}/keys/operator",
        f"{bough.home}/logs/control.log",
        f"down --home {bough.home}",
    ):
        assert words in done.stdout


def test_up_in_the_foreground_prints_one_line_of_json_and_ends_by_ctrl_c(bough: Program) -> None:
    process = bough.up_here("--json")
    assert process.stdout is not None
    assert get(json.loads(process.stdout.readline()), "/projects") == 200
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")


def test_a_second_platform_in_the_same_home_is_refused(bough: Program) -> None:
    said = bough.up()
    done = bough("up", "--detach")
    assert done.returncode == 1
    where = said["console_url"].rstrip("/")
    assert f"Bough already runs in {bough.home} at {where} (pid {bough.supervisor()})" in done.stderr


def test_a_control_that_dies_is_started_again(bough: Program) -> None:
    said = bough.up()
    before = bough.status()
    os.kill(before["control_pid"], signal.SIGKILL)
    after = bough.running_again(before["control_pid"])
    assert (after["pid"], after["control_restarts"]) == (before["pid"], 1)
    assert get(said, "/projects") == 200


def test_a_restart_keeps_pid_and_lock(bough: Program) -> None:
    bough.up()
    before = bough.status()
    done = bough("restart")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Bough is ready again at http://127.0.0.1:")
    after = bough.status()
    assert after["pid"] == before["pid"]
    assert after["control_pid"] != before["control_pid"]
    assert bough("up", "--detach").returncode == 1, "the home is still held"


def test_a_restart_that_fails_says_why(bough: Program) -> None:
    bough.up()
    (bough.home / "bough.toml").write_text('storage = "btrfs"')
    done = bough("restart")
    assert done.returncode == 1
    assert "cannot do --storage btrfs" in done.stderr
    assert bough("status").returncode == 3


def test_a_first_start_that_fails_says_why(bough: Program) -> None:
    for arguments in (["--detach"], []):
        done = bough("up", *bough.ports(), "--storage", "btrfs", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("bough: ") == 1
        assert "cannot do --storage btrfs" in done.stderr
    assert bough("status").returncode == 3


def test_sigquit_ends_the_platform(bough: Program) -> None:
    bough.up()
    supervisor = bough.supervisor()
    os.kill(supervisor, signal.SIGQUIT)
    until(lambda: not is_alive(supervisor))
    assert bough("status").returncode == 3


def test_control_ends_when_its_supervisor_is_killed(bough: Program) -> None:
    said = bough.up()
    status = bough.status()
    os.kill(status["pid"], signal.SIGKILL)
    again = bough.up()
    assert again["api_url"] == said["api_url"], "the next start waits for the old control to free its port"
    assert not is_alive(status["control_pid"])


def test_the_gateway_port_is_held(bough: Program) -> None:
    port = bough.up()["gateway_port"]
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        assert other.connect_ex(("127.0.0.1", port)) == 0, "the gateway listens"
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError as error:
            assert "in use" in str(error)
        else:
            raise AssertionError("another program could take it")


def test_the_doctor_of_a_running_platform_is_content(bough: Program) -> None:
    bough.up()
    done = bough("doctor", "--json")
    found = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 0
    assert found["instance"]["sentence"] == f"the platform runs (pid {bough.supervisor()})"
    assert found["ports"]["verdict"] == "ok"

"""The supervisor with a real platform: start, restart and stop. `test_computes` covers its death."""

import json
import os
import signal
import socket
import subprocess

from support.platform import install_templates
from support.program import Program, get_status_code, is_alive


def test_up_in_the_background_as_json(shared_bough: Program) -> None:
    up_output = shared_bough.up_output
    assert set(up_output) == {"api_url", "instant_url", "console_url", "gateway_port", "api_key", "sign_in_url", "home"}
    assert get_status_code(up_output, "/projects") == 200
    assert up_output["home"] == str(shared_bough.home)
    supervisor = shared_bough.supervisor_pid()
    assert os.getsid(supervisor) == supervisor, "it has its own session"
    status = shared_bough.status()
    assert (status["state"], status["pid"]) == ("running", supervisor)
    assert status["projects"] >= 0


def test_up_for_people_says_where_and_how_and_down_ends_it(bough: Program) -> None:
    install_templates(bough.home)
    done = bough.run_in_new_interpreter("up", "--home", str(bough.home), "--detach", *bough.port_arguments())
    assert done.returncode == 0, done.stderr
    curl = next(line.strip() for line in done.stdout.splitlines() if line.strip().startswith("curl"))
    answer = subprocess.run(["sh", "-c", f"{curl} --silent --fail"], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["projects"] == []
    key = (bough.home / "keys" / "operator").read_text().strip()
    for phrase in (
        key,
        f"stored in {bough.home}/keys/operator",
        f"{bough.home}/logs/control.log",
        f"down --home {bough.home}",
    ):
        assert phrase in done.stdout
    supervisor, control = bough.supervisor_pid(), bough.status()["control_pid"]
    down = bough.run_in_new_interpreter("down", "--home", str(bough.home))
    assert (down.returncode, down.stdout) == (0, f"Stopped the platform (pid {supervisor}).\n")
    assert not is_alive(supervisor)
    assert not is_alive(control)


def test_up_in_the_foreground_prints_one_line_of_json_and_ends_by_ctrl_c(bough: Program) -> None:
    process = bough.start_foreground("--json")
    assert process.stdout is not None
    assert get_status_code(json.loads(process.stdout.readline()), "/projects") == 200
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")


def test_a_second_platform_in_the_same_home_is_refused(shared_bough: Program) -> None:
    done = shared_bough("up", "--detach")
    assert done.returncode == 1
    url = shared_bough.up_output["console_url"].rstrip("/")
    assert (
        f"Bough is already running in {shared_bough.home} at {url} (pid {shared_bough.supervisor_pid()})" in done.stderr
    )


def test_a_restart_keeps_pid_and_lock_and_says_why_when_it_fails(bough: Program) -> None:
    bough.up()
    before = bough.status()
    done = bough("restart")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Bough is ready again at http://127.0.0.1:")
    after = bough.status()
    assert after["pid"] == before["pid"]
    assert after["control_pid"] != before["control_pid"]
    assert bough("up", "--detach").returncode == 1, "the home is still locked"

    (bough.home / "bough.toml").write_text('storage = "btrfs"')
    done = bough("restart")
    assert done.returncode == 1
    assert "does not support --storage btrfs" in done.stderr
    assert bough("status").returncode == 3


def test_a_first_start_that_fails_says_why(bough: Program) -> None:
    for arguments in (["--detach"], []):
        done = bough.run_in_new_interpreter(
            "up", "--home", str(bough.home), *bough.port_arguments(), "--storage", "btrfs", *arguments
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("bough: ") == 1
        assert "does not support --storage btrfs" in done.stderr
    assert bough("status").returncode == 3


def test_the_gateway_port_is_held(shared_bough: Program) -> None:
    port = shared_bough.up_output["gateway_port"]
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


def test_the_doctor_of_a_running_platform_is_content(shared_bough: Program) -> None:
    done = shared_bough("doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert done.returncode == 0
    assert findings["instance"]["sentence"] == f"the platform is running (pid {shared_bough.supervisor_pid()})"
    assert findings["ports"]["verdict"] == "ok"

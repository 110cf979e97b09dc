"""Commands with a home in which nothing is running."""

import json

from support.program import Program


def test_status_exits_with_3(bough: Program) -> None:
    done = bough("status")
    assert done.returncode == 3
    assert done.stdout.startswith(f"Bough is not running in {bough.home}; start it with `")
    assert f"up --home {bough.home}`." in done.stdout


def test_status_as_json(bough: Program) -> None:
    done = bough("status", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout) == {"state": "stopped", "home": str(bough.home)}


def test_down_has_nothing_to_do(bough: Program) -> None:
    done = bough("down")
    assert (done.returncode, done.stdout) == (0, f"Nothing is running in {bough.home}.\n")


def test_restart_is_refused(bough: Program) -> None:
    done = bough("restart")
    assert done.returncode == 1
    assert done.stderr.startswith(f"bough: Bough is not running in {bough.home}; start it with `")


def test_there_are_no_logs(bough: Program) -> None:
    done = bough("logs")
    assert done.returncode == 1
    assert done.stderr.startswith("bough: There is no log yet in ")


def test_looking_makes_nothing(bough: Program) -> None:
    for command in ("status", "down", "restart", "doctor", "config", "logs"):
        bough(command)
    assert not bough.home.exists()

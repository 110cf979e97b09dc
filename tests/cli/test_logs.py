"""`bough logs`, on log files written by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.program import Program, environment

LINES = [
    f'{{"timestamp": "2025-11-15T03:20:{second:02d}Z", "level": "info", "event": "request", "status": {second}}}'
    for second in range(60)
]


@pytest.fixture
def log(bough: Program) -> Path:
    folder = bough.home / "logs"
    (folder / "computes").mkdir(parents=True)
    (folder / "control.log").write_text("".join(f"{line}\n" for line in LINES))
    return folder / "control.log"


def test_the_last_lines_in_readable_form(bough: Program, log: Path) -> None:
    done = bough("logs", "-n", "2", TZ="UTC")
    assert done.stdout == (
        "2025-11-15 03:20:58  info     request  status=58\n2025-11-15 03:20:59  info     request  status=59\n"
    )


def test_fifty_lines_unless_told(bough: Program, log: Path) -> None:
    assert len(bough("logs").stdout.splitlines()) == 50


def test_lines_as_they_are(bough: Program, log: Path) -> None:
    assert bough("logs", "--json", "-n", "3").stdout.splitlines() == LINES[-3:]


def test_a_line_that_is_no_event_is_shown_as_it_is(bough: Program, log: Path) -> None:
    log.write_text("Traceback (most recent call last):\n[1, 2]\n\nlast, without an end")
    assert bough("logs").stdout.splitlines() == [
        "Traceback (most recent call last):",
        "[1, 2]",
        "",
        "last, without an end",
    ]


def test_a_long_file_is_read_from_its_end(bough: Program, log: Path) -> None:
    log.write_text("".join(f"line {number} {'x' * 500}\n" for number in range(2000)))
    shown = bough("logs", "-n", "400").stdout.splitlines()
    assert [line.split()[1] for line in shown] == [str(number) for number in range(1600, 2000)]


def test_the_log_of_an_endpoint(bough: Program, log: Path) -> None:
    (log.parent / "computes" / "ep-quiet-sea-1.log").write_text("LOG:  ready\n")
    assert bough("logs", "ep-quiet-sea-1").stdout == "LOG:  ready\n"


@pytest.mark.parametrize("name", ["ep-unknown-1", "../control"])
def test_an_endpoint_without_a_log(bough: Program, log: Path, name: str) -> None:
    done = bough("logs", name)
    assert done.returncode == 1
    assert done.stderr.startswith(f"bough: The endpoint '{name}' has no log")


def test_following_shows_new_lines_and_a_new_file(bough: Program, log: Path) -> None:
    command = [
        sys.executable,
        "-u",
        "-m",
        "bough.cli.main",
        "logs",
        "--home",
        str(bough.home),
        "-f",
        "-n",
        "1",
        "--json",
    ]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        try:
            assert follower.stdout.readline() == f"{LINES[-1]}\n"
            with log.open("a") as file:
                file.write("first half, ")
                file.flush()
                file.write("second half\n")
            assert follower.stdout.readline() == "first half, second half\n"
            log.rename(log.with_suffix(".old"))
            log.write_text("in a new file\n")
            assert follower.stdout.readline() == "in a new file\n"
        finally:
            follower.terminate()

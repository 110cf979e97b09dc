"""`bough logs` with log files that the tests write."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from bough import log_rotation
from support.program import Program, make_environment

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


def test_the_audited_statements_of_an_endpoint(bough: Program, log: Path) -> None:
    entry = (
        '{"timestamp": "2026-01-31T10:00:00.123Z", "role": "ada", "database": "shop", "application": "psql", "pid": 7, '
        '"session": "x", "event": "SESSION,1,1,WRITE,INSERT,,,insert\\u001b[2J,<not logged>"}'
    )
    (log.parent / "computes" / "ep-one.audit").write_text(f"{entry}\nno entry\n")
    assert bough("logs", "ep-one", "--audit").stdout == (
        "2026-01-31T10:00:00.123Z  [7]  ada@shop  psql  SESSION,1,1,WRITE,INSERT,,,insert\\x1b[2J,<not logged>\n"
        "no entry\n"
    )
    assert bough("logs", "ep-one", "--audit", "--json", "-n", "2").stdout.splitlines()[0] == entry


def test_an_endpoint_whose_statements_are_not_audited(bough: Program, log: Path) -> None:
    (log.parent / "computes" / "ep-one.log").touch()
    for arguments, text in (
        (["ep-one"], "Set audit_log_level of its project"),
        (["ep-ons"], "Did you mean ep-one?"),
        ([], "Give"),
    ):
        done = bough("logs", *arguments, "--audit")
        assert done.returncode != 0
        assert text in done.stderr


def test_the_log_of_the_gateway(bough: Program, log: Path) -> None:
    missing = bough("logs", "--gateway")
    assert (missing.returncode, "There is no log yet" in missing.stderr) == (1, True)
    log.with_name("gateway.log").write_text('{"event": "gateway_ready", "level": "info"}\n')
    assert "gateway_ready" in bough("logs", "--gateway").stdout
    both = bough("logs", "--gateway", "ep-x")
    assert (both.returncode, "not both" in both.stderr) == (1, True)


@pytest.mark.parametrize("name", ["ep-unknown-1", "../control"])
def test_an_endpoint_without_a_log(bough: Program, log: Path, name: str) -> None:
    done = bough("logs", name)
    assert done.returncode == 1
    assert done.stderr.startswith(f"bough: The endpoint '{name}' has no log")
    assert "No compute has been started there." in done.stderr


def test_a_mistyped_endpoint_is_recognized(bough: Program, log: Path) -> None:
    for name in ("ep-quiet-sea-a1b2c3d4", "ep-loud-hill-e5f6g7h8"):
        (log.parent / "computes" / f"{name}.log").touch()
    assert "Did you mean ep-quiet-sea-a1b2c3d4?" in bough("logs", "ep-quiet-see-a1b2c3d4").stderr


def test_an_unlike_name_gets_the_endpoints_that_have_logs(bough: Program, log: Path) -> None:
    for number in range(7):
        path = log.parent / "computes" / f"ep-{'abcdefg'[number] * 8}.log"
        path.touch()
        os.utime(path, (number, number))
    error = bough("logs", "0123").stderr
    assert "the latest first: ep-gggggggg, ep-ffffffff, ep-eeeeeeee, ep-dddddddd, ep-cccccccc and 2 more." in error


def test_lines_are_shown_over_the_pieces_of_a_log(bough: Program, log: Path) -> None:
    path = log.parent / "computes" / "ep-quiet-sea-1.log"
    for first in (0, 100, 200, 300):
        with path.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(first, first + 100))
        if first < 300:
            log_rotation.rotate(path, 500, 4)
    for count in (50, 150, 250, 350, 400, 1000):
        shown = bough("logs", "ep-quiet-sea-1", "-n", str(count)).stdout.splitlines()
        assert shown == [f"line {number}" for number in range(max(0, 400 - count), 400)]


def test_a_statement_that_failed_does_not_show_its_password(bough: Program, log: Path) -> None:
    statement = "STATEMENT:  create subscription s connection 'postgresql://me:hunter2@far/db' publication p"
    (log.parent / "computes" / "ep-quiet-sea-1.log").write_text(f"{statement}\n")
    for arguments in ([], ["--json"]):
        shown = bough("logs", "ep-quiet-sea-1", *arguments).stdout
        assert "postgresql://me:***@far/db" in shown
        assert "hunter2" not in shown


@pytest.fixture
def follower(bough: Program, log: Path) -> Iterator[IO[str]]:
    """The output of `bough logs --follow`, starting at the last line."""
    command = [sys.executable, "-u", "-m", "bough.cli.main", "logs", "--home", str(bough.home)]
    with subprocess.Popen(
        [*command, "-f", "-n", "1", "--json"], env=make_environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout
        process.terminate()


def test_following_shows_new_lines_and_a_new_file(log: Path, follower: IO[str]) -> None:
    assert follower.readline() == f"{LINES[-1]}\n"
    with log.open("a") as file:
        file.write("first half, ")
        file.flush()
        file.write("second half\n")
    assert follower.readline() == "first half, second half\n"
    log.rename(log.with_suffix(".old"))
    log.write_text("in a new file\n")
    assert follower.readline() == "in a new file\n"


def test_following_goes_on_when_the_log_is_cut(log: Path, follower: IO[str]) -> None:
    assert follower.readline() == f"{LINES[-1]}\n"
    for number in range(3):
        with log.open("a") as file:
            file.write(f"{number} long before\n" * 300 + f"{number} just before\n")
        assert log_rotation.rotate(log, 3000, 4)
        assert [follower.readline() for _ in range(300)] == [f"{number} long before\n"] * 300
        assert follower.readline() == f"{number} just before\n"
        with log.open("a") as file:
            file.write(f"{number} after\n")
        assert follower.readline() == f"{number} after\n"

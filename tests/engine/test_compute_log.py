"""The reason of a failed start in one sentence, as read from a compute's log."""

from pathlib import Path

import pytest

from bough import log_rotation
from bough.engine.local.computes.compute_log import START_MARKER, read_start_error

DATA = Path("/home/volumes/vol-1/data")
EARLIER = "2026-01-01 [1] FATAL:  something of last week\n"


@pytest.mark.parametrize(
    ("lines", "sentence", "transient"),
    [
        (
            f'2026 [1] LOG:  starting\n2026 [1] FATAL:  "{DATA}" has wrong ownership\n2026 [1] HINT:  Look.\n',
            'The compute could not start: "the data directory" has wrong ownership.',
            False,
        ),
        (
            '2026 [1] LOG:  invalid value for parameter "jit": "x"\n'
            '2026 [1] FATAL:  configuration file "postgresql.conf" contains errors\n',
            'The compute could not start: invalid value for parameter "jit": "x".',
            False,
        ),
        (
            "2026 [1] FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use\n",
            "The compute could not start: pre-existing shared memory block (key 1, ID 2) is still in use.",
            True,
        ),
        (
            "postgres: could not find the database system\nExpected to find it elsewhere\n",
            "The compute could not start: postgres: could not find the database system Expected to find it elsewhere.",
            False,
        ),
        (
            "2026 [1] LOG:  starting\n2026 [1] LOG:  database system is shut down\n",
            "The compute's process was killed.",
            True,
        ),
        ("", "The compute's process was killed.", True),
        (
            "2026 [1] LOG:  starting\n2026 [7] app@db FATAL:  the database system is starting up\n"
            "2026 [1] LOG:  startup process (PID 6) was terminated by signal 9: Killed\n",
            "The compute's process was killed.",
            True,
        ),
    ],
)
def test_the_reason_of_the_last_start(tmp_path: Path, lines: str, sentence: str, transient: bool) -> None:
    log = tmp_path / "log"
    log.write_text(f"{EARLIER}2026 {START_MARKER}\n{lines}")
    error = read_start_error(log, DATA)
    assert (error.public_message, error.transient) == (sentence, transient)


def test_a_very_long_log_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(EARLIER * 10_000 + f"2026 {START_MARKER}\nFATAL:  this one\n")
    assert read_start_error(log, DATA).public_message == "The compute could not start: this one."


@pytest.mark.parametrize("cut_before_the_reason", [True, False])
def test_a_log_that_was_cut_after_the_start_tells_it_all_the_same(tmp_path: Path, cut_before_the_reason: bool) -> None:
    log = tmp_path / "log"
    log.write_text(f"{EARLIER}2026 {START_MARKER}\n2026 [1] LOG:  starting\n")
    if cut_before_the_reason:
        log_rotation.rotate(log, 10, 4)
    with log.open("a") as file:
        file.write("2026 [1] FATAL:  this one\n")
    if not cut_before_the_reason:
        log_rotation.rotate(log, 10, 4)
    assert read_start_error(log, DATA).public_message == "The compute could not start: this one."


def test_a_start_that_said_nothing_is_not_blamed_for_what_was_before_the_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(EARLIER)
    log_rotation.rotate(log, 10, 4)
    log.write_text(f"2026 {START_MARKER}\n")
    assert read_start_error(log, DATA).public_message == "The compute's process was killed."


def test_a_log_that_is_gone_is_no_obstacle(tmp_path: Path) -> None:
    assert read_start_error(tmp_path / "log", DATA).public_message == "The compute's process was killed."

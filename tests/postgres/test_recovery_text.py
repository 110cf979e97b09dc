"""Settings and files of recovery."""

import shlex
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bough.domain import lsn
from bough.domain.history import HEAD, Point
from bough.postgres import recovery, wal

PAGE = 8192


def test_a_moment_means_every_commit_up_to_and_in_it() -> None:
    moment = datetime(2026, 5, 4, 14, 2, 3, 45, tzinfo=timezone(timedelta(hours=2)))
    assert recovery.target_settings(Point(at=moment)) == {
        "recovery_target_time": "2026-05-04 12:02:03.000045+00:00",
        "recovery_target_inclusive": "on",
    }


def test_a_position_means_what_ended_there_and_not_what_begins_there() -> None:
    assert recovery.target_settings(Point(lsn="0/1A")) == {
        "recovery_target_lsn": "0/1A",
        "recovery_target_inclusive": "off",
    }


def test_the_end_is_no_target() -> None:
    settings = recovery.recovery_settings("/spool", HEAD, timeline=3)
    assert not [name for name in settings if name in ("recovery_target_time", "recovery_target_lsn")]
    assert settings["recovery_target_timeline"] == "3"


def test_the_timeline_is_always_said() -> None:
    assert recovery.recovery_settings("/spool", Point(at=datetime.now(UTC)), timeline=None)[
        "recovery_target_timeline"
    ] == ("current")


def test_wal_is_found_in_a_folder_of_any_name(tmp_path: Path) -> None:
    """Runs the command as Postgres does: replaces the two placeholders, and `%%` with `%`."""
    spool = tmp_path / """it's 100% "here" $HOME"""
    spool.mkdir()
    (spool / "00000002.history").write_text("1\n")
    command = recovery.restore_command(str(spool)).replace("%f", "00000002.history").replace("%p", "taken")
    subprocess.run(["/bin/sh", "-c", command.replace("%%", "%")], cwd=tmp_path, check=True)
    assert (tmp_path / "taken").read_text() == "1\n"
    assert shlex.split(command)[0] == "cp"


def test_a_timeline_begins_where_the_last_line_says() -> None:
    text = "1\t0/3000028\tno recovery target specified\n\n2\t1/A0000F8\tbefore 2026-05-04 12:02:03+00\n"
    assert recovery.parse_timeline_start(text) == "1/A0000F8"
    assert recovery.parse_timeline_start("nothing of the kind") is None
    assert recovery.history_file_name(2) == "00000002.history"


@given(st.integers(min_value=5, max_value=2**20).map(lambda units: units * 8))
def test_a_checkpoint_ends_after_its_record_and_the_heads_of_pages_in_it(begins: int) -> None:
    end = wal.checkpoint_end(begins)
    heads = end - begins - 120
    crosses = begins // PAGE != (begins + 119) // PAGE
    boundary = (begins // PAGE + 1) * PAGE
    assert heads == (0 if not crosses else 40 if boundary % wal.SEGMENT_BYTES == 0 else 24)
    assert lsn.is_lsn(lsn.to_text(end))

"""The automatic update of Postgres: off unless turned on, now and then, and a failure is reported."""

import json
import shlex
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bough import clock
from bough.config import Settings
from bough.control.platform import update_problems
from bough.tasks.update_postgres import UpdatePostgres
from support.branches import shift_clock

CHANGES = json.dumps({"changes": [{"pin": "debian-17", "version": "17.13"}], "restarted": 0, "outdated": 0})


def make_task(home: Path, script: str, *, is_on: bool = True) -> UpdatePostgres:
    settings = Settings(home=home, postgres_auto_update=is_on)
    return UpdatePostgres(settings, ("/bin/sh", "-c", f"echo run >>{shlex.quote(str(home / 'runs'))}; {script}"))


def count_runs(home: Path) -> int:
    runs = home / "runs"
    return len(runs.read_text().splitlines()) if runs.exists() else 0


async def test_it_is_off_unless_the_operator_turns_it_on(tmp_path: Path) -> None:
    task = make_task(tmp_path, "true", is_on=False)
    assert not Settings(home=tmp_path).postgres_auto_update
    with shift_clock(timedelta(days=30)):
        assert await task.run() == ""
    assert count_runs(tmp_path) == 0


async def test_it_runs_once_in_an_interval(tmp_path: Path) -> None:
    task = make_task(tmp_path, f"echo {shlex.quote(CHANGES)}")
    with shift_clock(timedelta(minutes=10)):
        assert await task.run() == "updated debian-17 to Postgres 17.13"
        assert await task.run() == ""
    assert count_runs(tmp_path) == 1
    with shift_clock(timedelta(hours=19)):
        assert await task.run() == ""
    with shift_clock(timedelta(hours=30)):
        await task.run()
    assert count_runs(tmp_path) == 2


async def test_a_failure_is_reported_until_a_success(tmp_path: Path) -> None:
    flag = tmp_path / "works"
    script = f"test -e {shlex.quote(str(flag))} && echo '{{}}' || {{ echo 'bough: no mirror answers' >&2; exit 1; }}"
    task = make_task(tmp_path, script)
    with shift_clock(timedelta(minutes=10)), capture_logs() as logs:
        assert await task.run() == ""
    assert [(each["event"], each["reason"]) for each in logs] == [
        ("postgres_update_failed", "bough: no mirror answers")
    ]
    problem = update_problems.read(Settings(home=tmp_path))
    assert problem is not None
    assert problem.message == "bough: no mirror answers"
    flag.touch()
    with shift_clock(timedelta(minutes=30)):
        await task.run()
    assert count_runs(tmp_path) == 1, "it is not repeated at once"
    with shift_clock(timedelta(minutes=71)):
        await task.run()
    assert update_problems.read(Settings(home=tmp_path)) is None


async def test_a_command_that_never_ends_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bough.tasks.update_postgres.TIMEOUT_SECONDS", 0.2)
    task = make_task(tmp_path, "exec sleep 1000")
    with shift_clock(timedelta(minutes=10)):
        await task.run()
    problem = update_problems.read(Settings(home=tmp_path))
    assert problem is not None
    assert "did not end" in problem.message


async def test_without_a_platform_the_command_itself_says_what_fails(tmp_path: Path) -> None:
    """The task runs the real command here."""
    settings = Settings(home=tmp_path / "missing", postgres_auto_update=True, debian_mirror="http://127.0.0.1:9")
    task = UpdatePostgres(settings)
    (tmp_path / "missing").mkdir()
    (tmp_path / "missing" / "bough.toml").write_text('debian_mirror = "http://127.0.0.1:9"\n')
    with shift_clock(timedelta(minutes=10)):
        await task.run()
    problem = update_problems.read(settings)
    assert problem is not None
    assert "mirror" in problem.message
    assert clock.now().isoformat()[:10] <= problem.at

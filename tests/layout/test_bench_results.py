"""The page of bench results: a run replaces its own sections and keeps the others."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine, results_page
from bench.promise import Check, Measurement, Promise, make_ratio

AT = datetime(2026, 11, 18, 12, tzinfo=UTC)
OLD_PAGE = """# Bench results

Introduction.

## restart

Recorded earlier.

## wake

Also earlier | with a pipe.
"""


def _promise(name: str, samples: tuple[float, ...]) -> Promise:
    ours = Measurement(name="ours | total", unit="ms", samples=samples)
    baseline = Measurement(name="bare postgres", unit="ms", samples=(10.0,) * len(samples))
    return Promise(
        name=name,
        sentence="A suspended endpoint returns its first row soon.",
        measurements=(ours, baseline),
        ratios=(make_ratio("to bare", ours, baseline, below=2),),
        checks=(Check(name="nothing was lost", true=True),),
        how=(),
        baseline=(),
    )


def _machine() -> dict[str, Any]:
    return {**machine.describe_machine(), "commit": "abc1234", "processor": "Test CPU", "cores": 2}


def test_a_run_replaces_its_sections_and_keeps_the_others(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text(OLD_PAGE)
    results_page.update([_promise("wake", (15.0, 16.0, 17.0, 18.0, 29.0))], _machine(), AT, page)
    text = page.read_text()
    assert text.startswith(
        "# Bench results\n\nIntroduction.\n\n## restart\n\nRecorded earlier.\n\n## wake\n\n**kept**: A susp"
    )
    assert "2026-11-18, commit abc1234, 2 cores of Test CPU, Linux " in text
    assert "| ours \\| total | 17 ms | 15 ms | 29 ms |  |\n" in text
    assert "| to bare | 1.7 x | 1.5 x | 2.9 x | < 2 x |\n" in text
    assert text.endswith("| nothing was lost | yes |  |  | yes |\n")


def test_a_new_promise_is_appended_and_a_repeated_run_changes_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text(OLD_PAGE)
    for _ in range(2):
        results_page.update([_promise("instant", (1.0, 2.0, 3.0, 4.0, 50.0))], _machine(), AT, page)
    text = page.read_text()
    assert text.startswith(OLD_PAGE + "\n## instant\n")
    assert text.count("## instant") == 1
    assert list(tmp_path.iterdir()) == [page]


def test_the_committed_page_can_be_updated(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    page.write_text(results_page.PAGE.read_text())
    results_page.update([], _machine(), AT, page)
    assert page.read_text() == results_page.PAGE.read_text()


def test_the_commit_of_the_checkout_is_recorded() -> None:
    assert machine.describe_machine()["commit"] != ""

"""Options, tiers and the fixtures that every folder may use."""

import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from support import tiers
from support.platform import Platform, open_platform, temporary_folder
from support.postgres import PostgresServer

# No deadline, because a test must not fail on a slow machine.
hypothesis.settings.register_profile(
    "everyday",
    deadline=None,
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.register_profile("fast", hypothesis.settings.get_profile("everyday"), max_examples=10)
hypothesis.settings.register_profile("long", hypothesis.settings.get_profile("everyday"), max_examples=500)


# Collection creates thousands of long-lived objects, and garbage collection would take a third of its time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers").addoption
    group("--long", action="store_true", help="run the tests with large counts too")
    group("--fast", action="store_true", help="run only pure tests and tests of the API in this process")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: runs with --long only; a similar test runs every day")
    config.addinivalue_line("markers", "slow: does not run with --fast")
    if config.getoption("--long") and config.getoption("--fast"):
        raise pytest.UsageError("--long and --fast exclude each other; use one of them.")
    hypothesis.settings.load_profile(tiers.tier_of(config))


def pytest_xdist_auto_num_workers() -> int:
    return tiers.choose_workers()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The fast tier does not import the tests of other folders. None leaves the decision to other hooks."""
    if config.getoption("--fast") and not tiers.is_in_fast_folders(collection_path):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = tiers.tier_of(config)
    deselected = {item for item in items if tiers.is_deselected(item, tier)}
    config.hook.pytest_deselected(items=list(deselected))
    items[:] = [item for item in items if item not in deselected]


@pytest.fixture(scope="session")
def is_long_run(request: pytest.FixtureRequest) -> bool:
    """Whether the tests run with large counts."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    """A platform on SQLite, with its own home."""
    async with open_platform() as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with temporary_folder() as folder:
        server = PostgresServer(folder)
        server.start()
        yield server
        server.stop()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the number of skipped tests by reason, so that a green run shows what it did not test."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    run_count = sum(len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error"))
    tier = tiers.tier_of(config)
    terminalreporter.write_line(f"{tier} tier: {run_count} ran, {sum(reasons.values())} skipped")
    reports = [each for kind in ("", "passed", "failed", "error") for each in terminalreporter.stats.get(kind, [])]
    for folder, seconds in tiers.seconds_by_folder(reports).most_common():
        terminalreporter.write_line(f"  {seconds:6.0f} s in {folder}")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"  skipped {count}: {reason}")

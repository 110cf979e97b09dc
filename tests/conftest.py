"""Options, tiers and the fixtures that every room may use."""

import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hypothesis
import pytest

from support.platform import Platform, open_platform, temporary_folder
from support.postgres import PostgresServer

# A slow machine is not a defect: what matters is the answer, never how long it took.
hypothesis.settings.register_profile(
    "everyday",
    deadline=None,
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
)
hypothesis.settings.register_profile("long", hypothesis.settings.get_profile("everyday"), max_examples=500)


# Collecting makes thousands of things that stay: looking for garbage in them takes a third of the time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the large counts too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: one of several of its kind, of which the others run every day")
    hypothesis.settings.load_profile("long" if config.getoption("--long") else "everyday")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    later = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=later)
    items[:] = [item for item in items if item not in later]


@pytest.fixture(scope="session")
def is_long_run(request: pytest.FixtureRequest) -> bool:
    """Whether the large counts were asked for."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    """A whole platform on SQLite, with a home of its own."""
    async with open_platform() as made:
        yield made


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with temporary_folder() as folder:
        server = PostgresServer(folder)
        server.start()
        yield server
        server.stop()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Count what was skipped, by reason: a green run says what it did not show."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    ran = sum(len(terminalreporter.stats.get(kind, [])) for kind in ("passed", "failed", "error"))
    tier = "long" if config.getoption("--long") else "everyday"
    terminalreporter.write_line(f"{tier} tier: {ran} ran, {sum(reasons.values())} skipped")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"  skipped {count}: {reason}")

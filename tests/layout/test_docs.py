"""Documents stay true: links lead to files, and module paths exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "bench/*.md", ".github/**/*.md") for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?:#(?P<anchor>[^)]*))?\)")
MODULE = re.compile(r"`(?P<path>[a-z_]+(?:/[a-z_0-9]+)*\.py)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for link in LINK.finditer(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link["target"]):
            continue
        target = (page.parent / link["target"]).resolve()
        assert target.exists(), link[0]
        if link["anchor"] and target.suffix == ".md":
            assert link["anchor"] in _anchors(target), link[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_exist(page: Path) -> None:
    """A path may be given from the root, from `src/bough`, or as its last parts."""
    paths = {match["path"] for match in MODULE.finditer(page.read_text())}
    places = [ROOT / name for name in ("src", "tests", "bench")]
    missing = {path for path in paths if not any(True for place in places for _ in place.rglob(path))}
    assert {path for path in missing if not (ROOT / path).exists()} == set()


def test_the_map_stays_a_map() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size < 15_000


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = re.findall(r"\((\d{4}-[a-z-]+\.md)\)", (folder / "README.md").read_text())
    assert listed == sorted(path.name for path in folder.glob("[0-9]*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_log_events_exist(page: Path) -> None:
    """Words in backticks after "event" or "events" are names of log events."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for names in re.findall(r"\bevents? ((?:`[a-z_]+`(?:,? and |, )?)+)", page.read_text().replace("\n", " ")):
        for name in re.findall(r"`([a-z_]+)`", names):
            assert f'"{name}"' in source, name

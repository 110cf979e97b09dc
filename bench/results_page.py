"""Updates bench/RESULTS.md: one section per promise, with machine, date, commit, medians and spread.

A run replaces the sections of the promises that it measured. All other text stays as it is.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.promise import Promise
from bench.report import HEADINGS, check_cells, measurement_cells

PAGE = Path(__file__).parent / "RESULTS.md"
_SECTION = re.compile(r"^## (?P<name>.+)\n", re.MULTILINE)


def update(promises: Iterable[Promise], machine: dict[str, Any], at: datetime, page: Path = PAGE) -> Path:
    """Replace or append a section for each promise. The page is replaced atomically."""
    introduction, sections = _split(page.read_text() if page.exists() else "# Bench results\n")
    for promise in promises:
        sections[promise.name] = _section(promise, machine, at)
    text = introduction.rstrip() + "\n"
    for name, body in sections.items():
        text += f"\n## {name}\n\n{body.strip()}\n"
    temporary = page.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(page)
    return page


def _split(text: str) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and the sections by name, in order."""
    introduction, *rest = _SECTION.split(text)
    return introduction, dict(zip(rest[::2], rest[1::2], strict=True))


def _section(promise: Promise, machine: dict[str, Any], at: datetime) -> str:
    rows = [measurement_cells(each) for each in (*promise.measurements, *promise.ratios)]
    rows += [check_cells(check) for check in promise.checks]
    rounds = len(promise.measurements[0].samples)
    return "\n".join(
        (
            f"**{promise.verdict}**: {promise.sentence}",
            "",
            f"{at:%Y-%m-%d}, commit {machine['commit']}, {_describe(machine)}; {rounds} rounds.",
            "",
            _row(HEADINGS),
            "|---|--:|--:|--:|--:|",
            *map(_row, rows),
        )
    )


def _describe(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cores']} cores of {machine['processor']}, Linux {machine['kernel']}, Python {machine['python']}, "
        f"{machine['user']}, load {machine['load_before'][0]:g} before the run"
    )


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

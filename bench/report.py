"""Promises as tables for people and as JSON for programs."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.promise import Check, Measurement, Promise, Verdict

RESULTS = Path(__file__).parent / "results"
_COLOURS = {Verdict.KEPT: "bold green", Verdict.BROKEN: "bold red"}


def show(promise: Promise, console: Console) -> None:
    """One table: the promise, its figures, ratios and facts, and how they were measured."""
    console.print()
    console.print(Text.assemble((f"{promise.verdict.upper()}  ", _COLOURS[promise.verdict]), promise.sentence))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("", "median", "smallest", "largest", "promised"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for figure in promise.measurements:
        table.add_row(*_measurement_cells(figure))
    table.add_section()
    for each in promise.ratios:
        table.add_row(*_measurement_cells(each), style="bold" if each.limit_text else None)
    for fact in promise.checks:
        table.add_row(*_check_cells(fact), style="bold")
    console.print(table)
    _show_lines(console, "measured", promise.how)
    _show_lines(console, "baseline", promise.baseline)


def _measurement_cells(figure: Measurement) -> tuple[str, ...]:
    numbers = (figure.median, figure.smallest, figure.largest)
    promised = figure.limit_text + ("" if figure.is_kept else "  broken")
    return figure.name, *(f"{_number(number)} {figure.unit}" for number in numbers), promised


def _check_cells(fact: Check) -> tuple[str, ...]:
    return fact.name, "yes" if fact.true else "no", "", "", "yes" if fact.is_kept else "yes  broken"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _show_lines(console: Console, heading: str, lines: tuple[str, ...]) -> None:
    for number, line in enumerate(lines):
        console.print(Text(f"{heading if number == 0 else '':10}{line}", style="dim"))


def write(promises: list[Promise], about: dict[str, Any]) -> Path:
    """`results/<moment>.json`, and the same again as `latest.json`."""
    now = datetime.now(UTC)
    text = json.dumps(
        {"at": now.isoformat(), "machine": about, "promises": [_as_json(each) for each in promises]}, indent=2
    )
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    for target in (path, RESULTS / "latest.json"):
        target.write_text(text + "\n")
    return path


def _as_json(promise: Promise) -> dict[str, Any]:
    return {
        "name": promise.name,
        "promise": promise.sentence,
        "verdict": promise.verdict,
        "figures": [_measurement_as_json(figure) for figure in promise.measurements],
        "ratios": [_measurement_as_json(each) for each in promise.ratios],
        "facts": [asdict(fact) for fact in promise.checks],
        "measured": promise.how,
        "baseline": promise.baseline,
    }


def _measurement_as_json(figure: Measurement) -> dict[str, Any]:
    return {
        **asdict(figure),
        "median": figure.median,
        "smallest": figure.smallest,
        "largest": figure.largest,
        "kept": figure.is_kept,
    }

"""Shows promises as tables in the terminal and writes a run as JSON to bench/results/."""

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.promise import Check, Measurement, Promise, Verdict

RESULTS = Path(__file__).parent / "results"
HEADINGS = ("", "median", "smallest", "largest", "promised")
_COLOURS = {Verdict.KEPT: "bold green", Verdict.BROKEN: "bold red"}


def show(promise: Promise, console: Console) -> None:
    """Print one table: measurements, ratios and checks, and how they were measured."""
    console.print()
    console.print(Text.assemble((f"{promise.verdict.upper()}  ", _COLOURS[promise.verdict]), promise.sentence))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "" else "right")
    for measurement in promise.measurements:
        table.add_row(*measurement_cells(measurement))
    table.add_section()
    for ratio in promise.ratios:
        table.add_row(*measurement_cells(ratio), style="bold" if ratio.limit_text else None)
    for check in promise.checks:
        table.add_row(*check_cells(check), style="bold")
    console.print(table)
    _show_lines(console, "measured", promise.how)
    _show_lines(console, "baseline", promise.baseline)


def measurement_cells(measurement: Measurement) -> tuple[str, ...]:
    values = (measurement.median, measurement.smallest, measurement.largest)
    promised = measurement.limit_text + ("" if measurement.is_kept else "  broken")
    return measurement.name, *(f"{_number(value)} {measurement.unit}".rstrip() for value in values), promised


def check_cells(check: Check) -> tuple[str, ...]:
    return check.name, "yes" if check.true else "no", "", "", "yes" if check.is_kept else "yes  broken"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _show_lines(console: Console, heading: str, lines: tuple[str, ...]) -> None:
    for number, line in enumerate(lines):
        console.print(Text(f"{heading if number == 0 else '':10}{line}", style="dim"))


def write_json(promises: list[Promise], machine: dict[str, Any], at: datetime) -> Path:
    """Write `results/<time>.json` and a copy, `latest.json`."""
    text = json.dumps(
        {"at": at.isoformat(), "machine": machine, "promises": [_as_json(promise) for promise in promises]}, indent=2
    )
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{at:%Y%m%dT%H%M%SZ}.json"
    for target in (path, RESULTS / "latest.json"):
        target.write_text(text + "\n")
    return path


def _as_json(promise: Promise) -> dict[str, Any]:
    return {
        "name": promise.name,
        "promise": promise.sentence,
        "verdict": promise.verdict,
        "figures": [_measurement_as_json(measurement) for measurement in promise.measurements],
        "ratios": [_measurement_as_json(ratio) for ratio in promise.ratios],
        "facts": [asdict(check) for check in promise.checks],
        "measured": promise.how,
        "baseline": promise.baseline,
    }


def _measurement_as_json(measurement: Measurement) -> dict[str, Any]:
    return {
        **asdict(measurement),
        "median": measurement.median,
        "smallest": measurement.smallest,
        "largest": measurement.largest,
        "kept": measurement.is_kept,
    }

"""Prints entries of an audit log of statements for a reader."""

import json
from typing import Any

from bough.cli import escapes, output


def show(line: str) -> None:
    output.print_text(_format(line))


def _format(line: str) -> str:
    """Format an entry as a line of text; return anything else unchanged."""
    try:
        entry = json.loads(line)
    except ValueError:
        return escapes.escape(line)
    if not isinstance(entry, dict) or "event" not in entry:
        return escapes.escape(line)
    return "  ".join(escapes.escape(each) for each in _describe(entry))


def _describe(entry: dict[str, Any]) -> list[str]:
    where = f"{entry.get('role', '-')}@{entry.get('database', '-')}"
    parameters = [str(entry["parameters"])] if "parameters" in entry else []
    return [
        str(entry.get("timestamp", "-")),
        f"[{entry.get('pid', '-')}]",
        where,
        str(entry.get("application", "")) or "-",
        str(entry["event"]),
        *parameters,
    ]

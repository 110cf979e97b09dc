"""What people and programs read: lines, tables, JSON and errors. Nothing else prints.

Control characters are made visible in all of it: names, errors and logs hold what tenants wrote.

Answers go to standard output, remarks and errors to standard error, so that the answer of a
command can be piped while its remarks stay on the terminal.
"""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from bough.cli import escapes

COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "error": "red", "running": "green"}


def print_text(text: str = "") -> None:
    typer.echo(escapes.escape_keeping_colours(text))


def print_note(text: str) -> None:
    typer.echo(escapes.escape_keeping_colours(text), err=True)


def print_error(sentence: str) -> None:
    typer.echo(f"bough: {escapes.escape(sentence)}", err=True)


def print_json(value: Any) -> None:
    """One line, so that a script may read it with one `read`."""
    print_json_line(json.dumps(value, default=str))


def print_json_line(line: str) -> None:
    typer.echo(escapes.escape_json(line))


def colorize(word: str, text: str | None = None) -> str:
    """The text in the word's colour; terminals only, `echo` strips it elsewhere."""
    return typer.style(escapes.escape(word if text is None else text), fg=COLOURS.get(word))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns. The last one is wrapped to a terminal's width and left whole in a pipe."""
    rows = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        *first, last = row
        head = "".join(
            f"{colorize(cell)}{' ' * (width - len(cell) + 2)}" for cell, width in zip(first, widths, strict=False)
        )
        indent = sum(width + 2 for width in widths[:-1])
        for number, line in enumerate(_wrapped(last, indent)):
            print_text((head if number == 0 else " " * indent) + line)


def _one_line(cell: str) -> str:
    """A name with an end of line in it would look like another row."""
    return escapes.escape_keeping_colours(cell).replace("\n", "\\n")


def _wrapped(text: str, indent: int) -> list[str]:
    room = shutil.get_terminal_size().columns - indent
    if not sys.stdout.isatty() or room < 20:
        return [text]
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def program_name() -> str:
    """How this user can type our name: `bough` when it is on the PATH, else the path they used."""
    ours = Path(sys.executable).with_name("bough")
    found = shutil.which("bough")
    if found and Path(found).resolve() == ours.resolve():
        return "bough"
    here = Path.cwd()
    return str(ours.relative_to(here)) if ours.is_relative_to(here) else str(ours)


def format_command(arguments: str, home: Path) -> str:
    """A line to type for this home: the home is named when it is not the one we would take anyway."""
    usual = Path("/var/lib/bough") if os.geteuid() == 0 else Path.cwd() / ".bough"
    return f"{program_name()} {arguments}" + ("" if home == usual else f" --home {home}")

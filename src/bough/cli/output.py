"""Prints text, tables, JSON and errors. All output of the command line goes through this module.

It makes control characters visible, because names, errors and logs contain text that tenants wrote. Results go to
standard output and notes and errors to standard error, so that a result can be piped while notes stay visible.
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


def print_error(message: str) -> None:
    typer.echo(f"bough: {escapes.escape(message)}", err=True)


def print_json(value: Any) -> None:
    """Print a single line, so that a script can read it with one `read`."""
    print_json_line(json.dumps(value, default=str))


def print_json_line(line: str) -> None:
    typer.echo(escapes.escape_json(line))


def colorize(word: str, text: str | None = None) -> str:
    """Return the text in the colour of the word; `echo` removes colours when the output is not a terminal."""
    return typer.style(escapes.escape(word if text is None else text), fg=COLOURS.get(word))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Align the columns. Wrap the last one to the width of a terminal, but not in a pipe."""
    rows = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    for row in rows:
        *first, last = row
        head = "".join(
            f"{colorize(cell)}{' ' * (width - len(cell) + 2)}" for cell, width in zip(first, widths, strict=False)
        )
        indent = sum(width + 2 for width in widths[:-1])
        for number, line in enumerate(_wrap(last, indent)):
            print_text((head if number == 0 else " " * indent) + line)


def _one_line(cell: str) -> str:
    """A name that contains a newline would look like another row."""
    return escapes.escape_keeping_colours(cell).replace("\n", "\\n")


def _wrap(text: str, indent: int) -> list[str]:
    width = shutil.get_terminal_size().columns - indent
    if not sys.stdout.isatty() or width < 20:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def program_name() -> str:
    """Return what this user can type to run us: `bough` when it is on the PATH, else a path."""
    executable = Path(sys.executable).with_name("bough")
    on_path = shutil.which("bough")
    if on_path and Path(on_path).resolve() == executable.resolve():
        return "bough"
    working_folder = Path.cwd()
    relative = executable.is_relative_to(working_folder)
    return str(executable.relative_to(working_folder)) if relative else str(executable)


def format_command(arguments: str, home: Path, *, as_root: bool = False) -> str:
    """Return a command line for this home; it names the home only when it is not the default.

    `as_root`: the command is to be run with sudo, under which the default differs.
    """
    default = Path("/var/lib/bough") if as_root or os.geteuid() == 0 else Path.cwd() / ".bough"
    return f"{program_name()} {arguments}" + ("" if home == default else f" --home {home}")

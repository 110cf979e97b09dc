"""Prompts for a person at a terminal; an empty answer selects the default."""

import sys
from collections.abc import Callable, Sequence

import typer

from bough.errors import Invalid


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(text: str, default: str, parse: Callable[[str], str] = str) -> str:
    """Ask again when `parse` rejects the answer."""

    def check(answer: str) -> str:
        try:
            return parse(answer)
        except Invalid as error:
            raise typer.BadParameter(error.public_message) from None

    answer: str = typer.prompt(text, default=default, value_proc=check, show_default=bool(default), err=True)
    return answer


def confirm_replace(names: Sequence[str], file: str) -> bool:
    return typer.confirm(f"{file} already has {' and '.join(names)}. Replace?", default=False, err=True)

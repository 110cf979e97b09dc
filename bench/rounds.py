"""Rounds: everything is measured once in each, in an order that turns."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console

from bench.promise import MIN_ROUNDS

T = TypeVar("T")

ROUNDS = MIN_ROUNDS
_notes = Console(stderr=True)


def rotate_rounds(things: Sequence[T], rounds: int = ROUNDS) -> Iterator[list[T]]:
    """Each round begins with another, so that none has always the same one before it."""
    for number in range(rounds):
        print_note(f"round {number + 1} of {rounds}")
        first = number % len(things)
        yield [*things[first:], *things[:first]]


def print_note(words: str) -> None:
    """What goes on, for whoever waits."""
    _notes.print(f"  {words}", style="dim", highlight=False)

"""Rounds: each measures everything once, in a rotating order."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console

from bench.promise import MIN_ROUNDS

T = TypeVar("T")

ROUNDS = MIN_ROUNDS
_notes = Console(stderr=True)


def rotate_rounds(things: Sequence[T], rounds: int = ROUNDS) -> Iterator[list[T]]:
    """Yield the things in rotated order, so that none always follows the same one."""
    for number in range(rounds):
        print_note(f"round {number + 1} of {rounds}")
        first = number % len(things)
        yield [*things[first:], *things[:first]]


def print_note(output: str) -> None:
    """Print progress."""
    _notes.print(f"  {output}", style="dim", highlight=False)

"""Shows the progress of slow work: a bar on a terminal, otherwise a line for each stage."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from bough.cli import output

ProgressCallback = Callable[[str, int, int], None]  # name of the stage, amount done, total amount


def display(bars: bool) -> AbstractContextManager[ProgressCallback]:
    return _display_bars() if bars else _print_stages()


@contextmanager
def discard() -> Iterator[ProgressCallback]:
    """Show nothing."""
    yield lambda _stage, _done, _total: None


@contextmanager
def _display_bars() -> Iterator[ProgressCallback]:
    percent = TextColumn("{task.percentage:>3.0f}%")
    with Progress(
        TextColumn("{task.description}"), BarColumn(), percent, TimeElapsedColumn(), console=Console(stderr=True)
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(_title(stage), total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield report


@contextmanager
def _print_stages() -> Iterator[ProgressCallback]:
    printed: set[str] = set()

    def report(stage: str, _done: int, _total: int) -> None:
        if stage not in printed:
            printed.add(stage)
            output.print_note(f"{_title(stage)} …")

    yield report


def _title(stage: str) -> str:
    return stage[:1].upper() + stage[1:]

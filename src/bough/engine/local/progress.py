"""The callback by which slow work reports its progress: a stage, and how much of it is done."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]


def ignore_progress(_stage: str, _done: int, _total: int) -> None:
    """For callers that show no progress."""

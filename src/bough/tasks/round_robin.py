"""Round robin over projects, so that no project waits for all work of another."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def interleave_by_project(items: Iterable[T], project_of: Callable[[T], Hashable]) -> list[T]:
    """Interleave the items by project. The order within a project, and among the first items, is kept."""
    by_project: dict[Hashable, deque[T]] = {}
    for item in items:
        by_project.setdefault(project_of(item), deque()).append(item)
    ordered: list[T] = []
    while by_project:
        ordered += [waiting.popleft() for waiting in by_project.values()]
        by_project = {project: waiting for project, waiting in by_project.items() if waiting}
    return ordered

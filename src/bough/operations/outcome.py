"""Outcomes of steps. A step returns one instead of looping, sleeping or calling the next step.

The writes of the last step are part of its outcome: they are committed in the transaction that records the end of the
operation.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bough.store.store import Rows

RowWriter = Callable[[Rows], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Goto:
    """Record this step as done and run another one."""

    step: Callable[..., Awaitable[Any]]

    @property
    def name(self) -> str:
        return str(self.step.__name__)


@dataclass(frozen=True, slots=True)
class Sleep:
    """Run this step again later."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """The action is done once `writes` is committed. `has_changed=False`: there was nothing to do.

    `shortcoming` says what was done differently than requested; it becomes the error of the finished operation.
    """

    message: str
    has_changed: bool = True
    writes: RowWriter | None = None
    shortcoming: str | None = None


Outcome = Goto | Sleep | Done

"""What a step says when it is over. Steps do not loop, sleep or raise to move on.

What the last step has to write goes with its outcome, so that it is written in the transaction that
records the end: there is no moment with the one and without the other.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bough.store.store import Rows

RowWriter = Callable[[Rows], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Goto:
    """Record this step and run that one."""

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
    """The action is over once `writes` are written. `changed=False`: there was nothing to do."""

    message: str
    has_changed: bool = True
    writes: RowWriter | None = None


Outcome = Goto | Sleep | Done

"""What a step says when it is over. Steps do not loop, sleep or raise to move on."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


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
    why: str


@dataclass(frozen=True, slots=True)
class Done:
    """The action is over. `changed=False`: there was nothing to do."""

    sentence: str
    changed: bool = True


Outcome = Goto | Sleep | Done

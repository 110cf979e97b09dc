"""What a supervisor leaves to the program that replaces it at a restart: open sockets and living workers.

The lock of the home goes the same way, by a flag of its own.
"""

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorHandoff:
    alive_end: int  # of the pipe that tells children that we live: the end they hold
    our_end: int
    listeners: tuple[int, ...]
    door: int
    workers: tuple[int, ...]  # pids
    api_listeners: tuple[int, ...] = ()  # none from versions whose control bound the port itself

    @classmethod
    def from_json(cls, text: str) -> "SupervisorHandoff":
        """Taken over from the program before us."""
        given: dict[str, Any] = json.loads(text)
        lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        found = cls(**{**given, **lists})
        for descriptor in found._descriptors():
            os.set_inheritable(descriptor, False)
        return found

    def to_json(self) -> str:
        """Ready for the program after us."""
        for descriptor in self._descriptors():
            os.set_inheritable(descriptor, True)
        return json.dumps(dataclasses.asdict(self))

    def _descriptors(self) -> Iterator[int]:
        yield from (self.alive_end, self.our_end, self.door, *self.listeners, *self.api_listeners)

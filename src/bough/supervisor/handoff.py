"""What a supervisor hands to the program that replaces it at a restart: open descriptors and running workers.

The lock of the home is handed over separately, with a flag of its own. The JSON is read by the next version of
Bough, so its keys are fixed; `_KEYS` maps our field names to them.
"""

import dataclasses
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_KEYS = {
    "alive_fd": "alive_end",
    "supervisor_fd": "our_end",
    "listener_fds": "listeners",
    "local_socket_fd": "door",
    "worker_pids": "workers",
    "api_listener_fds": "api_listeners",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorHandoff:
    alive_fd: int  # the children's end of the pipe that closes when the supervisor dies
    supervisor_fd: int  # the supervisor's end of that pipe
    listener_fds: tuple[int, ...]
    local_socket_fd: int
    worker_pids: tuple[int, ...]
    api_listener_fds: tuple[int, ...] = ()  # empty from versions in which control bound the API port

    @classmethod
    def from_json(cls, text: str) -> "SupervisorHandoff":
        """Read what the previous program handed over, and keep its descriptors from child processes."""
        content: dict[str, Any] = json.loads(text)
        values: dict[str, Any] = {field: content[key] for field, key in _KEYS.items() if key in content}
        lists = {field: tuple(value) for field, value in values.items() if isinstance(value, list)}
        handoff = cls(**{**values, **lists})
        for fd in handoff._descriptors():
            os.set_inheritable(fd, False)
        return handoff

    def to_json(self) -> str:
        """Return the text for the next program, which inherits the descriptors."""
        for fd in self._descriptors():
            os.set_inheritable(fd, True)
        return json.dumps({_KEYS[name]: value for name, value in dataclasses.asdict(self).items()})

    def _descriptors(self) -> Iterator[int]:
        yield from (self.alive_fd, self.supervisor_fd, self.local_socket_fd)
        yield from (*self.listener_fds, *self.api_listener_fds)

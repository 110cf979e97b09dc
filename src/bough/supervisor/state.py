"""The supervisor's state for the other commands, in `supervisor.json` in the home.

It describes a running platform only while the process with its pid holds the supervisor's lock.
"""

import dataclasses
import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TypedDict

from bough import clock
from bough.config import Settings
from bough.supervisor import lock
from bough.supervisor.addresses import ApiAddress


class WorkerState(TypedDict):
    pid: int  # 0 while the worker is being restarted
    starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorState:
    """The field names are the keys of the file, which other versions of Bough read."""

    pid: int
    phase: str  # starting, ready, stopping, failed
    listen: str
    api_port: int
    gateway_port: int
    version: str
    started_at: str
    control_pid: int = 0
    control_starts: int = 0
    workers: tuple[WorkerState, ...] = ()  # gateway workers
    draining: int = 0  # old workers that exit with their last connection
    sentence: str = ""  # why the platform failed
    api_inodes: tuple[int, ...] = ()  # inodes of the API's listening sockets; empty while an earlier version runs

    @property
    def since(self) -> datetime:
        return datetime.fromisoformat(self.started_at)

    @property
    def api_address(self) -> ApiAddress:
        return ApiAddress(self.listen, self.api_port, tuple(self.api_inodes))


def _file(settings: Settings) -> Path:
    return settings.home / "supervisor.json"


def write(settings: Settings, state: SupervisorState) -> None:
    """Replace the file atomically: a reader sees the old state or the new one."""
    new = _file(settings).with_suffix(".new")
    new.write_text(json.dumps(dataclasses.asdict(state)) + "\n")
    new.replace(_file(settings))


def read_last(settings: Settings) -> SupervisorState | None:
    """Return the last recorded state, whether or not the supervisor still runs."""
    try:
        return SupervisorState(**json.loads(_file(settings).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def read_running(settings: Settings) -> SupervisorState | None:
    """Return the state of the platform that runs in this home, or None."""
    state = read_last(settings)
    return state if state and lock.read_holder_pid(lock.supervisor_lock_file(settings)) == state.pid else None


def was_killed(settings: Settings) -> bool:
    """Whether the last platform of this home died without a shutdown; its processes may still be exiting."""
    state = read_last(settings)
    return bool(state and state.phase in {"starting", "ready"} and not read_running(settings))


def write_failure(settings: Settings, message: str) -> None:
    """Record why the platform failed for a command that waits for it, if there is a state at all."""
    before = read_last(settings)
    if before:
        write(settings, replace(before, phase="failed", sentence=message, started_at=clock.now().isoformat()))

"""What the supervisor tells the other commands: `supervisor.json` in the home.

It describes a running platform only while the pid in it holds the supervisor's lock.
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
    pid: int  # 0 while it is being started again
    starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorState:
    pid: int
    phase: str  # starting, ready, stopping, failed
    listen: str
    api_port: int
    gateway_port: int
    version: str
    started_at: str
    control_pid: int = 0
    control_starts: int = 0
    workers: tuple[WorkerState, ...] = ()  # of the gateway
    draining: int = 0  # older workers that end with their last connection
    sentence: str = ""  # why it failed
    api_inodes: tuple[int, ...] = ()  # of the API's listening sockets; none while an earlier version runs

    @property
    def since(self) -> datetime:
        return datetime.fromisoformat(self.started_at)

    @property
    def api_address(self) -> ApiAddress:
        return ApiAddress(self.listen, self.api_port, tuple(self.api_inodes))


def _file(settings: Settings) -> Path:
    return settings.home / "supervisor.json"


def write(settings: Settings, state: SupervisorState) -> None:
    """Replace the file at once: a reader sees the old state or the new one."""
    new = _file(settings).with_suffix(".new")
    new.write_text(json.dumps(dataclasses.asdict(state)) + "\n")
    new.replace(_file(settings))


def read_last(settings: Settings) -> SupervisorState | None:
    """What the supervisor said last, whether it still runs or not."""
    try:
        return SupervisorState(**json.loads(_file(settings).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def read_running(settings: Settings) -> SupervisorState | None:
    """The state of the platform that runs in this home, or None."""
    state = read_last(settings)
    return state if state and lock.read_holder_pid(lock.supervisor_lock_file(settings)) == state.pid else None


def was_killed(settings: Settings) -> bool:
    """Whether the last platform of this home ended without a word; its processes may still be ending."""
    state = read_last(settings)
    return bool(state and state.phase in {"starting", "ready"} and not read_running(settings))


def write_failure(settings: Settings, sentence: str) -> None:
    """Leave the reason for whoever waits for us, when there was a state at all."""
    before = read_last(settings)
    if before:
        write(settings, replace(before, phase="failed", sentence=sentence, started_at=clock.now().isoformat()))

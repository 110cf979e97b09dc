"""Which computes of a running platform wait for a restart, in one sentence."""

from typing import Any

from bough.cli import timestamps
from bough.cli.operator_client import OperatorClient
from bough.config import Settings
from bough.errors import PlatformError
from bough.supervisor import state


def try_fetch(settings: Settings) -> dict[str, Any] | None:
    """Return what `GET /bough/postgres` says; None if the platform does not run, or the caller may not ask."""
    running = state.read_running(settings)
    if running is None or not running.control_pid:
        return None
    try:
        return OperatorClient.connect(settings).get("/bough/postgres")
    except PlatformError:
        return None


def describe(fetched: dict[str, Any]) -> str:
    """Return nothing if no compute waits."""
    restarts = fetched["planned_restarts"]
    if not restarts:
        return ""
    times = sorted(each["scheduled_for"] for each in restarts if each.get("scheduled_for"))
    count = len(restarts)
    text = "1 compute waits for a restart" if count == 1 else f"{count} computes wait for a restart"
    if not times:
        return f"{text}, which is not planned yet"
    first = timestamps.format_timestamp(times[0])
    return f"{text}, in the maintenance window at {first}" if count == 1 else f"{text}, the first at {first}"

"""The builds of a running platform, and changes of them."""

import time
from collections.abc import Sequence
from typing import Any

from bough import clock
from bough.cli import output
from bough.cli.operator_client import OperatorClient
from bough.config import Settings
from bough.engine.local.installs.update import BuildChange
from bough.errors import PlatformError, Unavailable
from bough.supervisor import state

_WAIT_SECONDS = 120
_POLL_SECONDS = 0.5


def fetch_status(settings: Settings) -> dict[str, Any]:
    return OperatorClient.connect(settings).get("/bough/postgres")


def fetch_builds(settings: Settings) -> list[dict[str, Any]]:
    builds: list[dict[str, Any]] = fetch_status(settings)["builds"]
    return builds


def describe_change(change: BuildChange) -> str:
    if change.before is None:
        return f"{change.pin}: {change.after.version} for new projects"
    return f"{change.pin}: {change.before.version} → {change.after.version} ({change.after.id})"


def to_fields(change: BuildChange) -> dict[str, object]:
    return {
        "pin": change.pin,
        "from": change.before.id if change.before else None,
        "to": change.after.id,
        "version": change.after.version,
        "cves": list(change.fixed_cves),
    }


def wait_until_followed(settings: Settings, changes: Sequence[BuildChange]) -> bool:
    """Wait until a running platform uses the builds. Return False if none runs: its next start uses them."""
    if state.read_running(settings) is None:
        return False
    selected = {change.pin: change.after.id for change in changes}
    deadline = clock.monotonic() + _WAIT_SECONDS
    while clock.monotonic() < deadline:
        builds = fetch_builds(settings)
        if all(selected.get(each["pin"], each["id"]) == each["id"] for each in builds):
            return True
        time.sleep(_POLL_SECONDS)
    raise Unavailable(
        "The running platform does not use the new builds yet: "
        f"`{output.format_command('logs', settings.home)}` shows why."
    )


def restart_outdated(settings: Settings, builds: Sequence[dict[str, Any]]) -> int:
    """Restart the computes that run older builds, one after another. Return how many."""
    client = OperatorClient.connect(settings)
    count = 0
    for each in [compute for build in builds for compute in build["outdated_computes"]]:
        try:
            client.post(f"/projects/{each['project_id']}/endpoints/{each['endpoint_id']}/restart")
        except PlatformError as error:
            output.print_note(f"{output.colorize('warning')}: {each['endpoint_id']}: {error.public_message}")
            continue
        count += 1
    return count

"""The builds of a running platform, and changes of them."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bough import clock
from bough.cli import output
from bough.cli.operator_client import OperatorClient
from bough.config import Settings
from bough.engine.local.installs.update import BuildChange
from bough.errors import PlatformError, PreconditionFailed, Unavailable
from bough.supervisor import state

_WAIT_SECONDS = 120
_WAIT_BASES_SECONDS = 600
_POLL_SECONDS = 0.5

_Key = tuple[str, str | None]  # pin and project


def fetch_status(settings: Settings) -> dict[str, Any]:
    return OperatorClient.connect(settings).get("/bough/postgres")


def fetch_builds(settings: Settings) -> list[dict[str, Any]]:
    builds: list[dict[str, Any]] = fetch_status(settings)["builds"]
    return builds


def describe_change(change: BuildChange) -> str:
    if change.before is None:
        return f"{change.pin}: {change.after.version} for new projects"
    whom = f"{change.pin}, project {change.project_id}" if change.project_id else change.pin
    return f"{whom}: {change.before.version} → {change.after.version} ({change.after.id})"


def to_fields(change: BuildChange) -> dict[str, object]:
    return {
        "pin": change.pin,
        "project_id": change.project_id,
        "from": change.before.id if change.before else None,
        "to": change.after.id,
        "version": change.after.version,
        "cves": list(change.fixed_cves),
    }


def wait_until_followed(settings: Settings, changes: Sequence[BuildChange]) -> bool:
    """Wait until a running platform uses the builds. Return False if none runs: its next start uses them."""
    if state.read_running(settings) is None:
        return False
    selected: dict[_Key, str] = {(change.pin, change.project_id): change.after.id for change in changes}
    deadline = clock.monotonic() + _WAIT_SECONDS
    while clock.monotonic() < deadline:
        builds = fetch_builds(settings)
        for build in builds:
            if build["pin"] in {pin for pin, _ in selected} and (problem := build.get("problem")):
                raise PreconditionFailed(f"{build['pin']}: the new build is not used. {problem}")
        if all(found == selected.get(key, found) for key, found in _list_ids(builds, selected)):
            return True
        time.sleep(_POLL_SECONDS)
    raise Unavailable(
        "The running platform does not use the new builds yet: "
        f"`{output.format_command('logs', settings.home)}` shows why."
    )


def _list_ids(builds: Sequence[dict[str, Any]], keys: Iterable[_Key]) -> Iterator[tuple[_Key, str]]:
    """Yield the builds that pins, and these projects of theirs, use now."""
    for build in builds:
        own = {each["project_id"]: each["id"] for each in build["project_builds"]}
        yield (build["pin"], None), build["id"]
        for pin, project in keys:
            if pin == build["pin"] and project is not None:
                yield (pin, project), own.get(project, build["id"])


def list_outdated(settings: Settings, project: str | None = None) -> list[dict[str, Any]]:
    """List the computes, of all projects or of one, that run another build than they would start with."""
    if state.read_running(settings) is None:
        return []
    computes = [each for build in fetch_builds(settings) for each in build["outdated_computes"]]
    return [each for each in computes if project in (None, each["project_id"])]


def print_restarts(command: str, *, restarted: int, waiting: int) -> None:
    """`command` restarts those that wait."""
    if restarted:
        output.print_text("Restarted 1 compute." if restarted == 1 else f"Restarted {restarted} computes.")
    if waiting:
        one = waiting == 1
        text = "1 compute runs an older build until its" if one else f"{waiting} computes run older builds until their"
        whom = "it" if one else "them"
        output.print_text(f"{text} next start or maintenance window; `{command}` restarts {whom} now.")


def restart_now(settings: Settings) -> int:
    """Restart the computes that run other builds than they would start with, and those with which a build did not start
    before. Return how many.
    """
    if state.read_running(settings) is None:
        return 0
    fetched = _wait_for_bases(settings)
    outdated = [each for build in fetched["builds"] for each in build["outdated_computes"]]
    put_back = [each for each in fetched["put_back"] if "endpoint_id" in each]
    return restart(settings, [*outdated, *put_back])


def _wait_for_bases(settings: Settings) -> dict[str, Any]:
    """Wait until restarts bring the new build: where a copy takes long, the platform takes it while they run."""
    deadline = clock.monotonic() + _WAIT_BASES_SECONDS
    while True:
        fetched = fetch_status(settings)
        waiting = sum(each["is_waiting_for_base"] for each in fetched["planned_restarts"])
        if not waiting:
            return fetched
        if clock.monotonic() >= deadline:
            output.print_note(
                f"{output.colorize('warning')}: {waiting} computes keep their build, because there is no base of their "
                "data yet to go back to: repeat this later."
            )
            return fetched
        time.sleep(_POLL_SECONDS)


def restart(settings: Settings, computes: Sequence[dict[str, Any]]) -> int:
    """Restart computes, one after another. Return how many."""
    if not computes:
        return 0
    client = OperatorClient.connect(settings)
    count = 0
    for each in computes:
        try:
            client.post(f"/bough/projects/{each['project_id']}/endpoints/{each['endpoint_id']}/restart")
        except PlatformError as error:
            output.print_note(f"{output.colorize('warning')}: {each['endpoint_id']}: {error.public_message}")
            continue
        count += 1
    return count

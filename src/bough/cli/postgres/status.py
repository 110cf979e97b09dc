"""`bough postgres status`."""

from typing import Any

from bough import config
from bough.cli import options, output, timestamps
from bough.cli.postgres import builds

RESTART_COLUMNS = ("project", "endpoint", "restart for", "planned for")
PUT_BACK_COLUMNS = ("project", "branch", "did not start with", "runs", "reason")
INDEX_COLUMNS = ("project", "branch", "database", "statement")
COLUMNS = ("postgres", "version", "previous", "default", "projects", "to restart", "build")


def status(home: options.Home = None, json: options.Json = False) -> None:
    """Show the builds, and computes that still run older ones.

    New projects use the default build of their Postgres version. A compute uses the current build from
    its next start, at the latest in the maintenance window of its project; `bough postgres update --now`
    restarts at once.
    """
    fetched = builds.fetch_status(config.load_settings({"home": home}))
    if json:
        output.print_json(fetched)
        return
    output.print_table([COLUMNS, *(_row(build) for build in fetched["builds"])])
    for build in fetched["builds"]:
        if problem := build.get("problem"):
            output.print_text(f"\n{build['pin']}: the newer build is not used. {problem}")
    _show_list(
        "These computes need a restart:", RESTART_COLUMNS, [_restart_row(each) for each in fetched["planned_restarts"]]
    )
    _show_list(
        "A newer build did not start on these branches, so the one before it is used:",
        PUT_BACK_COLUMNS,
        [_put_back_row(each) for each in fetched["put_back"]],
    )
    _show_list(
        "The new build sorts text differently than these indexes; rebuild them:",
        INDEX_COLUMNS,
        [_index_row(index) for index in fetched["indexes_to_rebuild"]],
    )


def _show_list(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if rows:
        output.print_text()
        output.print_text(title)
        output.print_table([columns, *rows])


def _restart_row(restart: dict[str, Any]) -> tuple[str, ...]:
    reasons = [f"{restart['from_version']} → {restart['to_version']}"] if "build" in restart["reasons"] else []
    reasons += restart["settings"] if "settings" in restart["reasons"] else []
    waits = "after a base was taken" if restart["is_waiting_for_base"] else ""
    planned = timestamps.format_timestamp(restart["scheduled_for"]) if restart.get("scheduled_for") else "not yet"
    return (restart["project_id"], restart["endpoint_id"], ", ".join(reasons), " ".join(filter(None, (planned, waits))))


def _put_back_row(put_back: dict[str, Any]) -> tuple[str, ...]:
    return (
        put_back["project_id"],
        put_back["branch_id"],
        put_back["version"],
        put_back["kept_version"],
        put_back["reason"],
    )


def _index_row(index: dict[str, Any]) -> tuple[str, ...]:
    return (index["project_id"], index["branch_id"], index["database"], index["statement"])


def _row(build: dict[str, Any]) -> tuple[str, ...]:
    return (
        build["pin"],
        build["version"],
        build["previous"]["version"] if build.get("previous") else "-",
        "yes" if build["is_default"] else "no",
        str(build["projects"]),
        str(len(build["outdated_computes"])),
        build["id"],
    )

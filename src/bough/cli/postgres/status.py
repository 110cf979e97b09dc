"""`bough postgres status`."""

from typing import Any

from bough import config
from bough.cli import options, output
from bough.cli.postgres import builds

INDEX_COLUMNS = ("project", "branch", "database", "statement")
COLUMNS = ("postgres", "version", "previous", "default", "projects", "to restart", "build")


def status(home: options.Home = None, json: options.Json = False) -> None:
    """Show the builds, and computes that still run older ones.

    New projects use the default build of their Postgres version. A compute uses the current build from
    its next start; `bough postgres update --restart` restarts those that run an older one.
    """
    fetched = builds.fetch_status(config.load_settings({"home": home}))
    if json:
        output.print_json(fetched)
        return
    output.print_table([COLUMNS, *(_row(build) for build in fetched["builds"])])
    if fetched["indexes_to_rebuild"]:
        output.print_text()
        output.print_text("The new build sorts text differently than these indexes; rebuild them:")
        output.print_table([INDEX_COLUMNS, *(_index_row(index) for index in fetched["indexes_to_rebuild"])])


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

"""`bough admin audit`."""

import json as json_text
from typing import Annotated, Any

import typer

from bough import config
from bough.cli import options, output, timestamps
from bough.cli.escapes import escape_line
from bough.cli.operator_client import OperatorClient

COLUMNS = ("time", "actor", "address", "action", "scope", "target")
PAGE_SIZE = 500  # the most entries that the API returns at once


def audit(
    *,
    org: Annotated[str | None, typer.Option(metavar="ID", help="Only in this organization.")] = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="Only in this project.")] = None,
    user: Annotated[
        str | None, typer.Option(metavar="EMAIL", help="Only by this person and the keys they created.")
    ] = None,
    action: Annotated[str | None, typer.Option(metavar="A", help="Only this action, such as create_project.")] = None,
    since: Annotated[str | None, typer.Option(metavar="T", help="Not before this time: 2h, 2026-01-31T12:00.")] = None,
    until: Annotated[str | None, typer.Option(metavar="T", help="Only before this time.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of entries.")] = 100,
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """Show who did what, when and from which address.

    The newest entry comes first. A time without a time zone is local time; 2h means two hours ago.
    """
    client = OperatorClient.connect(config.load_settings({"home": home}))
    filters = {
        "org_id": org,
        "project_id": project,
        "user_id": client.find_user_id(user) if user else None,
        "action": action,
        "since": timestamps.parse_timestamp(since, "--since").isoformat() if since else None,
        "until": timestamps.parse_timestamp(until, "--until").isoformat() if until else None,
    }
    entries = _fetch_entries(client, {name: value for name, value in filters.items() if value is not None}, limit)
    if json:
        output.print_json({"audit": entries})
    elif entries:
        output.print_table([COLUMNS, *(_row(entry) for entry in entries)])
    else:
        output.print_text("No audit entries match.")


def _fetch_entries(client: OperatorClient, query: dict[str, str], limit: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    while True:
        page = client.get("/bough/audit", limit=min(PAGE_SIZE, limit - len(entries)), **query)
        entries += page["audit"]
        if len(entries) >= limit or "pagination" not in page:
            return entries
        query = {**query, "cursor": page["pagination"]["cursor"]}


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    details = " ".join(f"{name}={json_text.dumps(value)}" for name, value in entry["details"].items())
    return (
        timestamps.format_timestamp(entry["at"]),
        escape_line(entry["actor"]["name"]),
        escape_line(entry["address"] or "-"),
        entry["action"],
        entry.get("project_id") or entry.get("org_id") or "-",
        escape_line(f"{entry['thing']} {details}".strip() or "-"),
    )

"""`bough admin audit`."""

import json as json_text
from typing import Annotated, Any

import typer

from bough import config
from bough.cli import options, output, timestamps
from bough.cli.escapes import escape_line
from bough.cli.operator_client import OperatorClient

COLUMNS = ("when", "who", "from", "did", "in", "to")
PAGE_SIZE = 500  # lines that the API gives at once


def audit(
    *,
    org: Annotated[str | None, typer.Option(metavar="ID", help="Only in this organization.")] = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="Only to this project.")] = None,
    user: Annotated[str | None, typer.Option(metavar="EMAIL", help="Only by this person, and keys they made.")] = None,
    action: Annotated[str | None, typer.Option(metavar="A", help="Only this, such as create_project.")] = None,
    since: Annotated[str | None, typer.Option(metavar="T", help="From then on: 2h, 3d, 2026-01-31T12:00.")] = None,
    until: Annotated[str | None, typer.Option(metavar="T", help="Before then.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many lines.")] = 100,
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """Show who did what, when and from where.

    The newest is first. A time without a zone is one of this machine; 2h means two hours ago.
    """
    running = OperatorClient.connect(config.load_settings({"home": home}))
    asked = {
        "org_id": org,
        "project_id": project,
        "user_id": running.find_user_id(user) if user else None,
        "action": action,
        "since": timestamps.parse_timestamp(since, "--since").isoformat() if since else None,
        "until": timestamps.parse_timestamp(until, "--until").isoformat() if until else None,
    }
    lines = _lines(running, {name: value for name, value in asked.items() if value is not None}, limit)
    if json:
        output.print_json({"audit": lines})
    elif lines:
        output.print_table([COLUMNS, *(_row(line) for line in lines)])
    else:
        output.print_text("The audit has no such line.")


def _lines(running: OperatorClient, asked: dict[str, str], wanted: int) -> list[dict[str, Any]]:
    """As many as are wanted and there are, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        answer = running.get("/bough/audit", limit=min(PAGE_SIZE, wanted - len(found)), **asked)
        found += answer["audit"]
        if len(found) >= wanted or "pagination" not in answer:
            return found
        asked = {**asked, "cursor": answer["pagination"]["cursor"]}


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    details = " ".join(f"{name}={json_text.dumps(value)}" for name, value in line["details"].items())
    return (
        timestamps.format_timestamp(line["at"]),
        escape_line(line["actor"]["name"]),
        escape_line(line["address"] or "-"),
        line["action"],
        line.get("project_id") or line.get("org_id") or "-",
        escape_line(f"{line['thing']} {details}".strip() or "-"),
    )

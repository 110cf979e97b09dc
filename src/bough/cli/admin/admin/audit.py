"""`bough admin audit`."""

import json as json_text
from typing import Annotated, Any

import typer

from bough import config
from bough.cli import output
from bough.cli.admin import options
from bough.cli.admin.admin import moments
from bough.cli.admin.admin.plain import plain
from bough.cli.admin.admin.running import Running

COLUMNS = ("when", "who", "from", "did", "in", "to")
PAGE = 500  # lines that the API gives at once


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
    running = Running.of(config.load({"home": home}))
    asked = {
        "org_id": org,
        "project_id": project,
        "user_id": running.user_id(user) if user else None,
        "action": action,
        "since": moments.parsed(since, "--since").isoformat() if since else None,
        "until": moments.parsed(until, "--until").isoformat() if until else None,
    }
    lines = _lines(running, {name: value for name, value in asked.items() if value is not None}, limit)
    if json:
        output.show_json({"audit": lines})
    elif lines:
        output.table([COLUMNS, *(_row(line) for line in lines)])
    else:
        output.say("The audit has no such line.")


def _lines(running: Running, asked: dict[str, str], wanted: int) -> list[dict[str, Any]]:
    """As many as are wanted and there are, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        answer = running.ask("/bough/audit", limit=min(PAGE, wanted - len(found)), **asked)
        found += answer["audit"]
        if len(found) >= wanted or "pagination" not in answer:
            return found
        asked = {**asked, "cursor": answer["pagination"]["cursor"]}


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    details = " ".join(f"{name}={json_text.dumps(value)}" for name, value in line["details"].items())
    return (
        moments.shown(line["at"]),
        plain(line["actor"]["name"]),
        plain(line["address"] or "-"),
        line["action"],
        line.get("project_id") or line.get("org_id") or "-",
        plain(f"{line['thing']} {details}".strip() or "-"),
    )

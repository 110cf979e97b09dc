"""`bough logs`."""

import json as json_text
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bough import config
from bough.cli import output
from bough.cli.admin import options, tail
from bough.errors import NotFound

FIRST_FIELDS = ("timestamp", "level", "event")


def logs(
    endpoint: Annotated[
        str | None, typer.Argument(metavar="ENDPOINT", help="Show the log of this endpoint's Postgres instead.")
    ] = None,
    home: options.Home = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new lines; Ctrl-C ends it.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=0, help="How many of the last lines.")] = 50,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as they are written, in JSON.")] = False,
) -> None:
    """Show the platform's log, or that of one endpoint."""
    settings = config.load({"home": home})
    path = _file(settings, endpoint)
    show = output.say if json or endpoint else _show_readable
    with path.open("rb") as file:
        for line in tail.last_lines(file, lines):
            show(line)
        for line in tail.followed(file, path) if follow else ():
            show(line)


def _file(settings: config.Settings, endpoint: str | None) -> Path:
    if endpoint is None:
        path = settings.log_file
        missing = f"There is no log yet in {settings.logs}; the platform has not been started there."
    else:
        path = settings.logs / "computes" / f"{Path(endpoint).name}.log"
        missing = f"The endpoint {endpoint!r} has no log in {path.parent}."
    if not path.is_file():
        raise NotFound(missing)
    return path


def _show_readable(line: str) -> None:
    output.say(_readable(line))


def _readable(line: str) -> str:
    """An event in a line for people; what is no event of ours is shown as it is."""
    try:
        entry = json_text.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or "event" not in entry:
        return line
    level = str(entry.get("level", ""))
    fields = (f"{name}={_plain(value)}" for name, value in entry.items() if name not in FIRST_FIELDS)
    return "  ".join([_local_time(entry), output.paint(level, f"{level:<7}"), str(entry["event"]), *fields])


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else json_text.dumps(value)


def _local_time(entry: dict[str, Any]) -> str:
    try:
        moment = datetime.fromisoformat(entry["timestamp"])
    except (KeyError, TypeError, ValueError):
        return "-"
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"

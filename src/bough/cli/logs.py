"""`bough logs`."""

import difflib
import json as json_text
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bough import config, log
from bough.cli import escapes, log_tail, options, output
from bough.errors import Invalid, NotFound

FIRST_FIELDS = ("timestamp", "level", "event")
MAX_LISTED = 5  # endpoints in the sentence about one that has no log


def logs(
    endpoint: Annotated[
        str | None, typer.Argument(metavar="ENDPOINT", help="Show the log of this endpoint's Postgres instead.")
    ] = None,
    *,
    gateway: Annotated[bool, typer.Option("--gateway", help="Show the gateway's log instead.")] = False,
    home: options.Home = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new lines; Ctrl-C ends it.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=0, help="How many of the last lines.")] = 50,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as they are written, in JSON.")] = False,
) -> None:
    """Show the platform's log, or that of one endpoint."""
    settings = config.load_settings({"home": home})
    if gateway and endpoint:
        raise Invalid("Give an endpoint or --gateway, not both.")
    path = _file(settings, endpoint, settings.gateway_log if gateway else settings.log_file)
    show = _show_without_secrets if endpoint else output.print_json_line if json else _show_readable
    with path.open("rb") as file:
        for line in log_tail.read_last_lines(file, path, lines):
            show(line)
        for line in log_tail.follow(file, path) if follow else ():
            show(line)


def _file(settings: config.Settings, endpoint: str | None, ours: Path) -> Path:
    if endpoint is None:
        path = ours
        missing = f"There is no log yet in {settings.logs}; the platform has not been started there."
    else:
        path = settings.compute_logs / f"{Path(endpoint).name}.log"
        missing = f"The endpoint {endpoint!r} has no log in {path.parent}. {_which_have(path.parent, endpoint)}"
    if not path.is_file():
        raise NotFound(missing)
    return path


def _which_have(folder: Path, endpoint: str) -> str:
    by_age = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime, reverse=True)
    names = [path.stem for path in by_age]
    if near := difflib.get_close_matches(endpoint, names, n=MAX_LISTED):
        return f"Did you mean {' or '.join(near)}?"
    if not names:
        return "No compute has been started there."
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"These have one, the latest first: {', '.join(names[:MAX_LISTED])}{more}."


def _show_without_secrets(line: str) -> None:
    """Postgres writes a statement that failed into its log as the tenant sent it."""
    output.print_text(escapes.escape(log.redact(line)))


def _show_readable(line: str) -> None:
    output.print_text(_readable(line))


def _readable(line: str) -> str:
    """An event in a line for people; what is no event of ours is shown as it is."""
    try:
        entry = json_text.loads(line)
    except ValueError:
        return escapes.escape(line)
    if not isinstance(entry, dict) or "event" not in entry:
        return escapes.escape(line)
    level = str(entry.get("level", ""))
    fields = (escapes.escape(f"{name}={_plain(value)}") for name, value in entry.items() if name not in FIRST_FIELDS)
    return "  ".join(
        [_local_time(entry), output.colorize(level, f"{level:<7}"), escapes.escape(str(entry["event"])), *fields]
    )


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else json_text.dumps(value)


def _local_time(entry: dict[str, Any]) -> str:
    try:
        moment = datetime.fromisoformat(entry["timestamp"])
    except (KeyError, TypeError, ValueError):
        return "-"
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"

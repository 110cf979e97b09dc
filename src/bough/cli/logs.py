"""`bough logs`."""

import difflib
import json as json_text
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from bough import config, log
from bough.cli import audit_lines, escapes, log_tail, options, output
from bough.errors import Invalid, NotFound

FIRST_FIELDS = ("timestamp", "level", "event")
MAX_LISTED = 5  # endpoints in the error about one that has no log


def logs(
    endpoint: Annotated[
        str | None, typer.Argument(metavar="ENDPOINT", help="Show the Postgres log of this endpoint instead.")
    ] = None,
    *,
    gateway: Annotated[bool, typer.Option("--gateway", help="Show the gateway's log instead.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Show the audited statements of the endpoint (audit_log_level).")
    ] = False,
    home: options.Home = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C is pressed.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=0, help="Number of lines to show.")] = 50,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as JSON, as they are written.")] = False,
) -> None:
    """Show the last lines of the platform's log or of an endpoint's log."""
    settings = config.load_settings({"home": home})
    if gateway and endpoint:
        raise Invalid("Give an endpoint or --gateway, not both.")
    if audit:
        path, show = _find_audit_log(settings, endpoint), output.print_json_line if json else audit_lines.show
    else:
        path = _find_log(settings, endpoint, settings.gateway_log if gateway else settings.log_file)
        show = _show_redacted if endpoint else output.print_json_line if json else _show_readable
    with path.open("rb") as file:
        for line in log_tail.read_last_lines(file, path, lines):
            show(line)
        for line in log_tail.follow(file, path) if follow else ():
            show(line)


def _find_log(settings: config.Settings, endpoint: str | None, platform_log: Path) -> Path:
    if endpoint is None:
        path = platform_log
        error = f"There is no log yet in {settings.logs}; the platform has not been started there."
    else:
        path = settings.compute_logs / f"{Path(endpoint).name}.log"
        error = f"The endpoint {endpoint!r} has no log in {path.parent}. {_suggest_endpoints(path.parent, endpoint)}"
    if not path.is_file():
        raise NotFound(error)
    return path


def _find_audit_log(settings: config.Settings, endpoint: str | None) -> Path:
    if endpoint is None:
        raise Invalid("Give the endpoint whose audited statements you want to see.")
    path = settings.compute_logs / f"{Path(endpoint).name}.audit"
    if not path.is_file():
        _find_log(settings, endpoint, path)  # names similar endpoints if there is no such endpoint
        raise NotFound(
            f"No statements of {endpoint!r} were audited. Set audit_log_level of its project, and connect to it."
        )
    return path


def _suggest_endpoints(folder: Path, endpoint: str) -> str:
    newest_first = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime, reverse=True)
    names = [path.stem for path in newest_first]
    if similar := difflib.get_close_matches(endpoint, names, n=MAX_LISTED):
        return f"Did you mean {' or '.join(similar)}?"
    if not names:
        return "No compute has been started there."
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"Endpoints with a log, the latest first: {', '.join(names[:MAX_LISTED])}{more}."


def _show_redacted(line: str) -> None:
    """Hide secrets: Postgres logs a failed statement as the tenant sent it."""
    output.print_text(escapes.escape(log.redact(line)))


def _show_readable(line: str) -> None:
    output.print_text(_format_event(line))


def _format_event(line: str) -> str:
    """Format an event as a line of text; return anything else unchanged."""
    try:
        entry = json_text.loads(line)
    except ValueError:
        return escapes.escape(line)
    if not isinstance(entry, dict) or "event" not in entry:
        return escapes.escape(line)
    level = str(entry.get("level", ""))
    fields = (escapes.escape(f"{name}={_format(value)}") for name, value in entry.items() if name not in FIRST_FIELDS)
    return "  ".join(
        [_local_time(entry), output.colorize(level, f"{level:<7}"), escapes.escape(str(entry["event"])), *fields]
    )


def _format(value: Any) -> str:
    return str(value) if isinstance(value, int | float) else json_text.dumps(value)


def _local_time(entry: dict[str, Any]) -> str:
    try:
        timestamp = datetime.fromisoformat(entry["timestamp"])
    except (KeyError, TypeError, ValueError):
        return "-"
    return f"{timestamp.astimezone():%Y-%m-%d %H:%M:%S}"

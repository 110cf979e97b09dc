"""`bough admin user list`."""

from typing import Any

from bough import config
from bough.cli import output
from bough.cli.admin import options
from bough.cli.admin.admin import moments
from bough.cli.admin.admin.plain import plain
from bough.cli.admin.admin.running import Running

COLUMNS = ("e-mail", "name", "plan", "since", "can sign in")


def list(home: options.Home = None, json: options.Json = False) -> None:  # noqa: A001 - named like the command
    """Show everybody with an account."""
    users = Running.of(config.load({"home": home})).users()
    if json:
        output.show_json({"users": users})
    else:
        output.table([COLUMNS, *(_row(user) for user in users)])


def _row(user: dict[str, Any]) -> tuple[str, ...]:
    can = "yes" if user["can_sign_in"] else "no password yet"
    return plain(user["email"]), plain(user["name"]), plain(user["plan"]), moments.shown(user["created_at"]), can

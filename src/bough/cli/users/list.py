"""`bough admin user list`."""

from typing import Any

from bough import config
from bough.cli import options, output, timestamps
from bough.cli.escapes import escape_line
from bough.cli.operator_client import OperatorClient

COLUMNS = ("e-mail", "name", "plan", "since", "can sign in")


def list_users(home: options.Home = None, json: options.Json = False) -> None:
    """List all accounts."""
    users = OperatorClient.connect(config.load_settings({"home": home})).list_users()
    if json:
        output.print_json({"users": users})
    else:
        output.print_table([COLUMNS, *(_row(user) for user in users)])


def _row(user: dict[str, Any]) -> tuple[str, ...]:
    return (
        escape_line(user["email"]),
        escape_line(user["name"]),
        escape_line(user["plan"]),
        timestamps.format_timestamp(user["created_at"]),
        "yes" if user["can_sign_in"] else "no password yet",
    )

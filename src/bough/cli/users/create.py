"""`bough admin user create`."""

from typing import Annotated

import typer

from bough import config
from bough.cli import options, output
from bough.cli.operator_client import OperatorClient
from bough.control.people.accounts import OPERATOR_LINK_LIFETIME


def create(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The address, with which they sign in.")],
    *,
    name: Annotated[str, typer.Option(metavar="N", help="What to call them. [default: from the address]")] = "",
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """Make an account; prints a link that sets its password.

    Hand the link to the person and to nobody else: it works once, and whoever follows it has the
    account.
    """
    made = OperatorClient.connect(config.load_settings({"home": home})).post("/bough/users", email=email, name=name)
    if json:
        output.print_json(made)
    else:
        output.print_text(f"{made['user']['email']} has an account now.")
        show_link(made["link"])


def show_link(link: str) -> None:
    output.print_text(
        f"Hand over this link; it sets a password, once, within {OPERATOR_LINK_LIFETIME.days} days:\n\n  {link}\n"
    )

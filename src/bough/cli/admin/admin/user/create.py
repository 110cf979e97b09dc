"""`bough admin user create`."""

from typing import Annotated

import typer

from bough import config
from bough.cli import output
from bough.cli.admin import options
from bough.cli.admin.admin.running import Running
from bough.control.accounts import BY_OPERATOR


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
    made = Running.of(config.load({"home": home})).send("/bough/users", email=email, name=name)
    if json:
        output.show_json(made)
    else:
        output.say(f"{made['user']['email']} has an account now.")
        show_link(made["link"])


def show_link(link: str) -> None:
    output.say(f"Hand over this link; it sets a password, once, within {BY_OPERATOR.days} days:\n\n  {link}\n")

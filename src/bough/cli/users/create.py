"""`bough admin user create`."""

from typing import Annotated

import typer

from bough import config
from bough.cli import options, output
from bough.cli.operator_client import OperatorClient
from bough.control.people.accounts import OPERATOR_LINK_LIFETIME


def create(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address that the person signs in with.")],
    *,
    name: Annotated[str, typer.Option(metavar="N", help="Name of the person. [default: from the address]")] = "",
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """Create an account and print a link that sets its password.

    Give the link only to the person: it works once, and anyone who opens it can take over the
    account.
    """
    client = OperatorClient.connect(config.load_settings({"home": home}))
    created = client.post("/bough/users", email=email, name=name)
    if json:
        output.print_json(created)
    else:
        output.print_text(f"Created an account for {created['user']['email']}.")
        print_link(created["link"])


def print_link(link: str) -> None:
    output.print_text(
        "Send this link to the owner of the account, who sets a password with it. "
        f"It works once and expires in {OPERATOR_LINK_LIFETIME.days} days:\n\n  {link}\n"
    )

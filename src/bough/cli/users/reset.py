"""`bough admin user reset`."""

from typing import Annotated

import typer

from bough import config
from bough.cli import options, output
from bough.cli.operator_client import OperatorClient
from bough.cli.users.create import show_link


def reset(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The address of the account.")],
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """End the password of an account; prints a link that sets a new one.

    Whoever is signed in with it is signed out, and earlier links do nothing. Its API keys go on
    working.
    """
    running = OperatorClient.connect(config.load_settings({"home": home}))
    answer = running.post(f"/bough/users/{running.find_user_id(email)}/reset")
    if json:
        output.print_json(answer)
    else:
        output.print_text(f"The old password of {email.strip().lower()} does not work any more.")
        show_link(answer["link"])

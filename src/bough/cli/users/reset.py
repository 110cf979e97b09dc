"""`bough admin user reset`."""

from typing import Annotated

import typer

from bough import config
from bough.cli import options, output
from bough.cli.operator_client import OperatorClient
from bough.cli.users.create import print_link


def reset(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address of the account.")],
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """Invalidate an account's password and print a link that sets a new one.

    Ends all sessions of the account and invalidates its earlier links. Its API keys keep working.
    """
    client = OperatorClient.connect(config.load_settings({"home": home}))
    answer = client.post(f"/bough/users/{client.find_user_id(email)}/reset")
    if json:
        output.print_json(answer)
    else:
        output.print_text(f"The old password of {email.strip().lower()} no longer works.")
        print_link(answer["link"])

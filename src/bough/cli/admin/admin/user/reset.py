"""`bough admin user reset`."""

from typing import Annotated

import typer

from bough import config
from bough.cli import output
from bough.cli.admin import options
from bough.cli.admin.admin.running import Running
from bough.cli.admin.admin.user.create import show_link


def reset(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The address of the account.")],
    home: options.Home = None,
    json: options.Json = False,
) -> None:
    """End the password of an account; prints a link that sets a new one.

    Whoever is signed in with it is signed out, and earlier links do nothing. Its API keys go on
    working.
    """
    running = Running.of(config.load({"home": home}))
    answer = running.send(f"/bough/users/{running.user_id(email)}/reset")
    if json:
        output.show_json(answer)
    else:
        output.say(f"The old password of {email.strip().lower()} does not work any more.")
        show_link(answer["link"])

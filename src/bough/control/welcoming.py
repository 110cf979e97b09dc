"""The operator's account from the first start: a link that works once, in a file that only the operator can read.

It is made at a start at which the operator has no password and no link that still works; `bough up` prints it.
"""

from pathlib import Path

from bough import clock
from bough.access.keys import Keys
from bough.access.vault import secret_file
from bough.config import Settings
from bough.control import accounts
from bough.domain.link import Purpose
from bough.domain.user import OPERATOR
from bough.store.store import Store


def token_file(settings: Settings) -> Path:
    return settings.keys / "welcome"


async def ensure_welcome(store: Store, keys: Keys, settings: Settings) -> None:
    async with store.read() as rows:
        operator = await rows.users.get(OPERATOR)
        known = await rows.links.get(keys.digest(_kept(settings)), Purpose.WELCOME, clock.now())
    if operator is None or known is not None:
        return
    forget(settings)
    if operator.password_digest is not None:
        return
    async with store.transaction() as rows:
        await rows.links.void_all(OPERATOR, Purpose.WELCOME)
        token = await accounts.add_link(rows, keys, Purpose.WELCOME, operator.email, user=operator)
    secret_file(token_file(settings), token.encode())


def _kept(settings: Settings) -> str:
    try:
        return token_file(settings).read_text()
    except FileNotFoundError:
        return ""


def forget(settings: Settings) -> None:
    token_file(settings).unlink(missing_ok=True)

"""The operator's account from the first start: a link that works once, in a file that only the operator can read.

It is made at a start at which the operator has no password and no link that still works; `bough up` prints it.
"""

from pathlib import Path

from bough import clock
from bough.access.keys import Keys
from bough.access.vault import load_or_create_secret
from bough.config import Settings
from bough.control.people import accounts
from bough.domain.one_time_link import LinkPurpose
from bough.domain.user import OPERATOR
from bough.store.store import Store


def operator_link_file(settings: Settings) -> Path:
    return settings.keys / "welcome"


async def ensure_operator_link(store: Store, keys: Keys, settings: Settings) -> None:
    async with store.read() as rows:
        operator = await rows.users.get(OPERATOR)
        known = await rows.links.get(keys.digest(_read_token(settings)), LinkPurpose.WELCOME, clock.now())
    if operator is None or known is not None:
        return
    remove_operator_link(settings)
    if operator.password_digest is not None:
        return
    async with store.transaction() as rows:
        await rows.links.delete_by_purpose(OPERATOR, LinkPurpose.WELCOME)
        token = await accounts.add_link(rows, keys, LinkPurpose.WELCOME, operator.email, user=operator)
    load_or_create_secret(operator_link_file(settings), token.encode())


def _read_token(settings: Settings) -> str:
    try:
        return operator_link_file(settings).read_text()
    except FileNotFoundError:
        return ""


def remove_operator_link(settings: Settings) -> None:
    operator_link_file(settings).unlink(missing_ok=True)

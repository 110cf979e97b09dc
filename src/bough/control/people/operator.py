"""The operator's account: an API key in `keys/operator`, and a one-time link in `keys/welcome`.

The key is created at the first start; the store holds its HMAC. The link sets the operator's password. A start creates
it when the operator has neither a password nor a valid link, and `bough up` prints it.
"""

from pathlib import Path

from bough import clock
from bough.access.keys import Keys
from bough.access.vault import load_or_create_secret
from bough.config import Settings
from bough.control.people import accounts
from bough.domain.api_key import KeyKind
from bough.domain.one_time_link import LinkPurpose
from bough.domain.user import OPERATOR
from bough.store.store import Store


async def ensure_operator_key(store: Store, keys: Keys, token: str) -> None:
    """A key that was revoked stays revoked; a new file in `keys/operator` makes a new one."""
    known = keys.from_token(token)
    async with store.transaction() as rows:
        found = await rows.api_keys.get_by_prefix(known.prefix)
        if found is None:
            await rows.api_keys.add(
                {
                    "kind": KeyKind.PERSONAL,
                    "name": "operator",
                    "prefix": known.prefix,
                    "digest": known.digest,
                    "user_id": OPERATOR,
                    "created_at": clock.now(),
                    "last_used_from": "",
                }
            )
        elif found.digest != known.digest:  # the server secret was changed
            await rows.api_keys.set_digest(found.id, known.digest)


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

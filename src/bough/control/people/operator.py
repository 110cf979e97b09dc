"""The operator's key: made at the first start, kept in `keys/operator`, known to the store by its HMAC."""

from bough import clock
from bough.access.keys import Keys
from bough.domain.api_key import KeyKind
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

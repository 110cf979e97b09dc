"""API keys: create and revoke. The token is given once and never kept."""

from dataclasses import replace

from bough import clock
from bough.access.keys import Keys
from bough.control.desk import Desk
from bough.domain.api_key import ApiKey, KeyKind
from bough.errors import Invalid, NotFound


class PersonalKeys:
    def __init__(self, desk: Desk, keys: Keys) -> None:
        self._desk = desk
        self._keys = keys

    async def create(self, name: str) -> tuple[ApiKey, str]:
        """The key as kept, and its token."""
        self._desk.principal.check_is_person()
        if not name.strip():
            raise Invalid("key_name is empty: give the key a name by which you will know it.")
        new = self._keys.new()
        async with self._desk.transaction() as rows:
            self._desk.record.about(thing=name)
            key = await rows.api_keys.add(
                {
                    "kind": KeyKind.PERSONAL,
                    "name": name,
                    "prefix": new.prefix,
                    "digest": new.digest,
                    "user_id": self._desk.principal.user_id,
                    "created_at": clock.now(),
                    "last_used_from": "",
                }
            )
        return key, new.token

    async def revoke(self, key_id: int) -> ApiKey:
        self._desk.principal.check_is_person()
        async with self._desk.transaction() as rows:
            key = await rows.api_keys.personal_one(self._desk.principal.user_id, key_id)
            if key is None:
                raise NotFound.thing("API key")
            self._desk.record.about(thing=key.name)
            now = clock.now()
            await rows.api_keys.revoke(key_id, now)
        return replace(key, revoked_at=now)

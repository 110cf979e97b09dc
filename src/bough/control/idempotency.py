"""Idempotency keys: a POST with an Idempotency-Key is executed once, and a repeated one gets the first response.

The key is written in the transaction that does the work, so a crash cannot separate the two. The response is stored
afterwards, encrypted, because responses contain passwords.
"""

import hashlib

from bough import clock
from bough.access.principal import Principal
from bough.access.vault import Vault
from bough.errors import Conflict, RuleViolation
from bough.store.idempotency import IdempotencyRecord
from bough.store.queries import Duplicate
from bough.store.store import Rows, Store

RETENTION_HOURS = 24
MAX_LENGTH = 255


class IdempotencyKey:
    def __init__(self, principal: Principal, key: str, request: bytes) -> None:
        self.key = hashlib.sha256(f"{principal.key_id}\n{key}".encode()).hexdigest()
        self.fingerprint = hashlib.sha256(request).hexdigest()
        self.is_reserved = False

    async def find_response(self, store: Store, vault: Vault) -> tuple[int, str] | None:
        """Return the status and body of the first response if this request is a repetition."""
        async with store.read() as rows:
            record = await rows.idempotency.get(self.key)
        return None if record is None else self._replay(record, vault)

    def _replay(self, record: IdempotencyRecord, vault: Vault) -> tuple[int, str]:
        if record.fingerprint != self.fingerprint:
            raise RuleViolation("This Idempotency-Key was used for another request. Use a new key for a new request.")
        if record.status is None or record.sealed_body is None:
            raise Conflict(
                "The request with this Idempotency-Key was executed or is in progress, and its response is not "
                "stored yet. Check whether its result exists before you repeat it with another key."
            )
        return record.status, vault.open(record.sealed_body, self.key)

    async def reserve(self, rows: Rows) -> None:
        try:
            await rows.idempotency.reserve(self.key, self.fingerprint, clock.now())
        except Duplicate:
            raise Conflict("A request with this Idempotency-Key is in progress. Try again in a moment.") from None
        self.is_reserved = True

    async def store_response(self, store: Store, vault: Vault, status: int, body: str) -> None:
        sealed = vault.seal(body, self.key)
        async with store.transaction() as rows:
            await rows.idempotency.save_response(self.key, status, sealed)

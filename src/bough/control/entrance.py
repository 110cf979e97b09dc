"""Who may enter: the gateway's first question.

Whoever asks for something that is not there gets an answer of the same shape, made with the same work: a
verifier that no password fits. So a stranger cannot tell an unknown role from a wrong password.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime

from bough import clock
from bough.control import defaults
from bough.control.allowances import Allowances
from bough.domain import allowed_ips
from bough.domain.endpoint import max_connections
from bough.domain.pooler import PoolSettings, pool_settings
from bough.ids import EndpointId
from bough.postgres.secret import ITERATIONS, SALT_BYTES, SCHEME, is_usable
from bough.store.roles import AtTheDoor, nobody_at_the_door
from bough.store.store import Rows, Store

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    verifier: str  # one that nobody can satisfy when the role is not known
    is_known: bool
    valid_until: datetime | None  # when the role's password ends
    networks: tuple[str, ...] | None  # those that may connect, in CIDR form; None: all
    refusal: str | None  # why a known role cannot be let in whatever its password, in a sentence
    pool: PoolSettings
    closed: str | None = None  # why nobody is let in for now, for whoever has the right password
    read_only_hint: str | None = None  # what helps somebody who cannot write; None: there is room


class Entrance:
    def __init__(self, store: Store, secret: bytes, allowances: Allowances) -> None:
        self._store = store
        self._secret = secret
        self._allowances = allowances

    async def access(self, endpoint_id: EndpointId, role: str) -> Access:
        mock = self._mock(endpoint_id, role)  # whether it is needed or not
        async with self._store.read() as rows:
            found = await rows.roles.at_the_door(endpoint_id, role) or nobody_at_the_door(defaults.MAX_CU)
            closed, hint = await self._used_up(rows, found)
        verifier = found.verifier
        is_known = verifier is not None and is_usable(verifier)
        return Access(
            verifier=verifier if verifier is not None and is_known else mock,
            is_known=is_known,
            valid_until=found.valid_until,
            networks=allowed_ips.networks(found.project_settings, branch_is_protected=found.branch_is_protected),
            refusal=_refusal(role, verifier) if verifier is not None and not is_known else None,
            pool=_pool(found),
            closed=closed,
            read_only_hint=hint,
        )

    async def _used_up(self, rows: Rows, found: AtTheDoor) -> tuple[str | None, str | None]:
        """The same for every role, known or not: it is the gateway that asks for the password first."""
        closed = await self._allowances.refusal(rows, found.terms, clock.now()) if found.has_transferred_all else None
        return closed, await self._allowances.hint(rows, found.terms, found.fullness)

    def _mock(self, endpoint_id: EndpointId, role: str) -> str:
        """The same salt at every try, as a role that exists would have."""
        name = f"{endpoint_id}\0{role}".encode("utf-8", "replace")
        salt = hmac.digest(self._secret, name, hashlib.sha256)[:SALT_BYTES]
        salt_text, stored, server = (
            base64.b64encode(part).decode()
            for part in (salt, secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES))
        )
        return f"{SCHEME}${ITERATIONS}:{salt_text}${stored}:{server}"


def _pool(found: AtTheDoor) -> PoolSettings:
    """The endpoint's, whoever asks; of one that is not there, as a new one would have it."""
    return pool_settings(found.endpoint_settings, max_connections(found.max_cu), direct_host_too=found.pooler_enabled)


def _refusal(role: str, verifier: str) -> str:
    if verifier.startswith(SCHEME):
        return (
            f"The password of role {role!r} is stored with a salt or a number of iterations that is not accepted here. "
            "Set it again: RESET scram_iterations; ALTER ROLE … PASSWORD '…'."
        )
    return (
        f"The password of role {role!r} is stored as md5, which is not accepted here. Set it again as SCRAM: "
        "SET password_encryption = 'scram-sha-256'; ALTER ROLE … PASSWORD '…'."
    )

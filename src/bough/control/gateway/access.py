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
from bough.control.gateway.allowances import AllowancePolicy
from bough.domain import allowed_ips
from bough.domain.endpoint import max_connections
from bough.domain.pooler import PoolSettings, parse_pool_settings
from bough.ids import EndpointId
from bough.postgres.scram import ITERATIONS, SALT_BYTES, SCHEME, is_usable
from bough.store.roles import EndpointAccess, unknown_endpoint_access
from bough.store.store import Rows, Store

_KEY_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessDecision:
    verifier: str  # one that nobody can satisfy when the role is not known
    is_known: bool
    valid_until: datetime | None  # when the role's password ends
    allowed_networks: tuple[str, ...] | None  # those that may connect, in CIDR form; None: all
    rejection: str | None  # why a known role cannot be let in whatever its password, in a sentence
    pool: PoolSettings
    blocked_reason: str | None = None  # why nobody is let in for now, for whoever has the right password
    read_only_hint: str | None = None  # what helps somebody who cannot write; None: there is room


class AccessResolver:
    def __init__(self, store: Store, secret: bytes, allowances: AllowancePolicy) -> None:
        self._store = store
        self._secret = secret
        self._allowances = allowances

    async def resolve(self, endpoint_id: EndpointId, role: str) -> AccessDecision:
        mock = self._mock_verifier(endpoint_id, role)  # whether it is needed or not
        async with self._store.read() as rows:
            found = await rows.roles.get_endpoint_access(endpoint_id, role) or unknown_endpoint_access(defaults.MAX_CU)
            closed, hint = await self._explain_limits(rows, found)
        verifier = found.verifier
        is_known = verifier is not None and is_usable(verifier)
        return AccessDecision(
            verifier=verifier if verifier is not None and is_known else mock,
            is_known=is_known,
            valid_until=found.valid_until,
            allowed_networks=allowed_ips.parse_networks(
                found.project_settings, branch_is_protected=found.branch_is_protected
            ),
            rejection=_explain_verifier_rejection(role, verifier) if verifier is not None and not is_known else None,
            pool=_pool(found),
            blocked_reason=closed,
            read_only_hint=hint,
        )

    async def _explain_limits(self, rows: Rows, found: EndpointAccess) -> tuple[str | None, str | None]:
        """The same for every role, known or not: it is the gateway that asks for the password first."""
        closed = (
            await self._allowances.explain_transfer_limit(rows, found.terms, clock.now())
            if found.has_transferred_all
            else None
        )
        return closed, await self._allowances.explain_storage_limit(rows, found.terms, found.fullness)

    def _mock_verifier(self, endpoint_id: EndpointId, role: str) -> str:
        """The same salt at every try, as a role that exists would have."""
        name = f"{endpoint_id}\0{role}".encode("utf-8", "replace")
        salt = hmac.digest(self._secret, name, hashlib.sha256)[:SALT_BYTES]
        salt_text, stored, server = (
            base64.b64encode(part).decode()
            for part in (salt, secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES))
        )
        return f"{SCHEME}${ITERATIONS}:{salt_text}${stored}:{server}"


def _pool(found: EndpointAccess) -> PoolSettings:
    """The endpoint's, whoever asks; of one that is not there, as a new one would have it."""
    return parse_pool_settings(
        found.endpoint_settings, max_connections(found.max_cu), direct_host_too=found.pooler_enabled
    )


def _explain_verifier_rejection(role: str, verifier: str) -> str:
    if verifier.startswith(SCHEME):
        return (
            f"The password of role {role!r} is stored with a salt or a number of iterations that is not accepted here. "
            "Set it again: RESET scram_iterations; ALTER ROLE … PASSWORD '…'."
        )
    return (
        f"The password of role {role!r} is stored as md5, which is not accepted here. Set it again as SCRAM: "
        "SET password_encryption = 'scram-sha-256'; ALTER ROLE … PASSWORD '…'."
    )

"""Decides who may log in to an endpoint: the gateway's access request.

For an endpoint or a role that does not exist, the answer has the same form and takes the same work. It carries
a verifier that no password matches, so clients cannot tell an unknown role from a wrong password.
"""

import base64
import hashlib
import hmac
import secrets

from bough import clock
from bough.control import defaults
from bough.control.gateway.allowances import AllowancePolicy
from bough.control.gateway.reached_limits import Explanation
from bough.domain import allowed_ips, audit_level
from bough.domain.endpoint import max_connections
from bough.domain.gateway_protocol import Access
from bough.domain.pooler import PoolSettings, parse_pool_settings
from bough.domain.private_networks import BlockedNetworks
from bough.ids import EndpointId
from bough.postgres.scram import ITERATIONS, SALT_BYTES, SCHEME, is_usable
from bough.store.roles import EndpointAccess, unknown_endpoint_access
from bough.store.store import Rows, Store

_KEY_BYTES = 32


class AccessResolver:
    def __init__(self, store: Store, secret: bytes, allowances: AllowancePolicy) -> None:
        self._store = store
        self._secret = secret
        self._allowances = allowances

    async def resolve(self, endpoint_id: EndpointId, role: str) -> Access:
        mock = self._mock_verifier(endpoint_id, role)  # for known roles too, so that all answers take the same time
        async with self._store.read() as rows:
            found = await rows.roles.get_endpoint_access(endpoint_id, role) or unknown_endpoint_access(defaults.MAX_CU)
            blocked, hint = await self._explain_limits(rows, found)
        verifier = found.verifier
        is_known = verifier is not None and is_usable(verifier)
        return Access(
            verifier=verifier if verifier is not None and is_known else mock,
            is_known=is_known,
            valid_until=found.valid_until,
            allowed_networks=allowed_ips.parse_networks(
                found.project_settings, branch_is_protected=found.branch_is_protected
            ),
            rejection=_explain_verifier_rejection(role, verifier) if verifier is not None and not is_known else None,
            pool_settings=_pool_settings(found),
            blocked_reason=blocked.message if blocked else None,
            blocked_hint=blocked.hint or None if blocked else None,
            read_only_hint=hint,
            blocked_networks=BlockedNetworks.from_settings(found.project_settings),
            is_audited=bool(found.project_settings.get(audit_level.SETTINGS_KEY)),
        )

    async def _explain_limits(self, rows: Rows, found: EndpointAccess) -> tuple[Explanation | None, str | None]:
        """Return why no client may connect, and the hint for clients that may not write.

        The gateway reveals them only after it has verified the password.
        """
        settings = found.project_settings
        blocked = None
        if found.reached_limit is not None:
            blocked = await self._allowances.explain_reached_limit(
                rows, found.terms, found.reached_limit, settings, clock.now()
            )
        return blocked, await self._allowances.explain_storage_limit(rows, found.terms, found.fullness, settings)

    def _mock_verifier(self, endpoint_id: EndpointId, role: str) -> str:
        """Return a verifier with the same salt at every attempt, as an existing role would have."""
        name = f"{endpoint_id}\0{role}".encode("utf-8", "replace")
        salt = hmac.digest(self._secret, name, hashlib.sha256)[:SALT_BYTES]
        salt_text, stored, server = (
            base64.b64encode(part).decode()
            for part in (salt, secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES))
        )
        return f"{SCHEME}${ITERATIONS}:{salt_text}${stored}:{server}"


def _pool_settings(found: EndpointAccess) -> PoolSettings:
    """The same for every role. An endpoint that does not exist has the settings of a new one."""
    return parse_pool_settings(
        found.endpoint_settings, max_connections(found.max_cu), direct_host_too=found.pooler_enabled
    )


def _explain_verifier_rejection(role: str, verifier: str) -> str:
    if verifier.startswith(SCHEME):
        return (
            f"The password of role {role!r} is stored with a salt or an iteration count that is not supported here. "
            "Set it again: RESET scram_iterations; ALTER ROLE … PASSWORD '…'."
        )
    return (
        f"The password of role {role!r} is stored as md5, which is not supported here. Set it again as SCRAM: "
        "SET password_encryption = 'scram-sha-256'; ALTER ROLE … PASSWORD '…'."
    )

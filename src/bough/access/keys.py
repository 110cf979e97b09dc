"""Create and verify API keys.

A token consists of a fixed prefix for secret scanners, a public part for lookup and 256 random bits. The store
holds the public part and an HMAC of the whole token. The HMAC secret is a file outside the store.
"""

import hashlib
import hmac
import secrets
import string
from dataclasses import dataclass

from bough.access.principal import Principal, build_memberships
from bough.domain.api_key import KeyKind
from bough.errors import Unauthenticated
from bough.store.api_keys import AuthenticatedKey
from bough.store.store import Rows

TOKEN_PREFIX = "bough_key_"
_LETTERS = string.ascii_letters + string.digits
_PUBLIC_LENGTH = 12
_SECRET_LENGTH = 43  # 62^43 is over 2^256
_PREFIX_LENGTH = len(TOKEN_PREFIX) + _PUBLIC_LENGTH


@dataclass(frozen=True, slots=True)
class GeneratedKey:
    token: str
    prefix: str
    digest: str


def public_part(token: str) -> str:
    return token[:_PREFIX_LENGTH]


class Keys:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def generate(self) -> GeneratedKey:
        return self.from_token(
            TOKEN_PREFIX + "".join(secrets.choice(_LETTERS) for _ in range(_PUBLIC_LENGTH + _SECRET_LENGTH))
        )

    def from_token(self, token: str) -> GeneratedKey:
        """Return an existing token in the form that the store keeps."""
        return GeneratedKey(token, token[:_PREFIX_LENGTH], self.digest(token))

    async def authenticate(self, rows: Rows, token: str) -> Principal:
        well_formed = token.isascii() and token.isprintable()
        found = await rows.api_keys.get_authenticated(token[:_PREFIX_LENGTH]) if well_formed else None
        expected = found.key.digest if found else ""
        # Constant work: the response time does not reveal whether the key exists.
        if not hmac.compare_digest(self.digest(token), expected) or found is None:
            raise Unauthenticated("This API key is unknown or was revoked. Use a valid key of this installation.")
        return _principal(found)

    def digest(self, token: str) -> str:
        """Return the HMAC of a secret token, which is all that the store keeps of it."""
        return hmac.new(self._secret, token.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def _principal(authenticated: AuthenticatedKey) -> Principal:
    key = authenticated.key
    return Principal(
        kind=key.kind,
        key_id=key.id,
        name=authenticated.email if key.kind is KeyKind.PERSONAL else key.name,
        user_id=key.user_id,
        memberships=build_memberships(authenticated.memberships),
        project_id=key.project_id,
    )

"""SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677) in the format that Postgres stores.

The platform's passwords are ASCII, so SASLprep (RFC 4013) does not change them.
"""

import base64
import hashlib
import hmac
import re
import secrets

SCHEME = "SCRAM-SHA-256"
ITERATIONS = 4096
SALT_BYTES = 16
MAX_VERIFIER_LENGTH = 256  # verifiers are truncated to this; Postgres creates verifiers of 133 characters
# Tenants can store any verifier with SQL, and every login reads it: this limits the iterations and the salt.
_USABLE = re.compile(
    SCHEME + r"\$[1-9][0-9]{0,6}:[A-Za-z0-9+/]{2,86}={0,2}\$[A-Za-z0-9+/]{43}=:[A-Za-z0-9+/]{43}=", re.ASCII
)


def scram_verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return f"{SCHEME}${iterations}:{_b64(salt)}${_b64(stored_key)}:{_b64(server_key)}"


def is_usable(verifier: str) -> bool:
    """Return whether a login can be verified with it."""
    return _USABLE.fullmatch(verifier) is not None


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()

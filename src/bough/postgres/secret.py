"""SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677) in the text form Postgres stores.

Our passwords are ASCII, so SASLprep (RFC 4013) leaves them as they are.
"""

import base64
import hashlib
import hmac
import re
import secrets

SCHEME = "SCRAM-SHA-256"
ITERATIONS = 4096
SALT_BYTES = 16
MOST_OF_A_VERIFIER = 1024  # characters. Before 18 Postgres stores one with a salt of any length

_BASE64 = "[A-Za-z0-9+/]+={0,2}"
_FORM = re.compile(rf"{SCHEME}\$[1-9][0-9]{{0,9}}:{_BASE64}\${_BASE64}:{_BASE64}")


def scram_verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return f"{SCHEME}${iterations}:{_b64(salt)}${_b64(stored_key)}:{_b64(server_key)}"


def is_scram(verifier: str) -> bool:
    """Whether it has the form that Postgres stores."""
    return len(verifier) <= MOST_OF_A_VERIFIER and _FORM.fullmatch(verifier) is not None


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()

"""Secrets of the installation: files in `keys/`, which are never in the store.

`Vault` encrypts values that must be readable again, such as stored passwords and idempotent responses. A backup of
the store without `keys/` cannot decrypt them, and the error says so.
"""

import base64
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bough.errors import PreconditionFailed

_NONCE_BYTES = 12


def load_or_create_secret(path: Path, initial: bytes | None = None) -> bytes:
    """Return the secret in `path`. The first call creates the file atomically, with mode 0600."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        pass
    value = secrets.token_bytes(32) if initial is None else initial
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(value)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    return value


class Vault:
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, text: str, purpose: str) -> str:
        """Encrypt `text`. `open` decrypts it only with the same `purpose`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, text.encode(), purpose.encode())).decode()

    def open(self, sealed: str, purpose: str) -> str:
        raw = base64.b64decode(sealed)
        try:
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], purpose.encode()).decode()
        except InvalidTag:
            raise PreconditionFailed(
                "The stored secret cannot be decrypted: it was encrypted with other files than those in keys/. "
                "Reset the password to get a new one."
            ) from None

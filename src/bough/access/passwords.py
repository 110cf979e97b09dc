"""Account passwords, stored as argon2 digests. A check takes the same time whether the account exists or not.

A digest takes 64 MiB and tens of milliseconds, so a small thread pool computes them, off the event loop.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from bough.errors import Invalid

MIN_LENGTH, MAX_LENGTH = 10, 256  # characters
_THREADS = 2


class Passwords:
    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(_THREADS, "passwords")

    async def digest(self, password: str) -> str:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._hasher.hash, password)

    async def matches(self, digest: str | None, password: str) -> bool:
        """Return whether the password matches. Without a digest the result is False after the same amount of work."""
        verification = asyncio.get_running_loop().run_in_executor(self._threads, self._verify, digest, password)
        return await verification and digest is not None

    def needs_rehash(self, digest: str) -> bool:
        """Return whether the digest uses weaker parameters than the current ones."""
        return self._hasher.check_needs_rehash(digest)

    def close(self) -> None:
        self._threads.shutdown()

    def _verify(self, digest: str | None, password: str) -> bool:
        dummy = self._dummy_digest  # computed even if unused, so that the first check takes as long with a digest
        try:
            return self._hasher.verify(digest or dummy, password)
        except (VerificationError, InvalidHashError):
            return False

    @cached_property
    def _dummy_digest(self) -> str:
        return self._hasher.hash("a password that nobody has")


def check_strength(password: str, email: str) -> None:
    """Check the length and reject trivial passwords. There are no rules about kinds of characters."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise Invalid(f"The password has {len(password)} characters; use {MIN_LENGTH} to {MAX_LENGTH}.")
    if password.strip().lower() in {email, email.partition("@")[0]} or len(set(password)) < 4:
        raise Invalid("This password is too easy to guess. Use several words, or a password generator.")
